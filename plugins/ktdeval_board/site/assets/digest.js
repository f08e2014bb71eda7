// kt.modelKey(name): how the data file of a model is called: kt.load(`model/${kt.modelKey(name)}`)
"use strict";

kt.modelKey = (() => {
  /** First 16 hex digits of SHA-256; written out, for crypto.subtle is not there on plain http. */
  function modelKey(name) {
    const rotate = (word, by) => (word >>> by) | (word << (32 - by));
    const primes = [];
    for (let candidate = 2; primes.length < 64; candidate += 1) {
      if (primes.every((prime) => candidate % prime)) primes.push(candidate);
    }
    const fraction = (root) => Math.floor((root - Math.floor(root)) * 2 ** 32) | 0;
    const constants = primes.map((prime) => fraction(Math.cbrt(prime)));
    const state = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
    const bytes = [...new TextEncoder().encode(name)];
    const bits = bytes.length * 8;
    bytes.push(0x80);
    while (bytes.length % 64 !== 56) bytes.push(0);
    for (let place = 7; place >= 0; place -= 1)
      bytes.push(Math.floor(bits / 2 ** (8 * place)) & 255);
    for (let start = 0; start < bytes.length; start += 64) {
      const schedule = [];
      for (let round = 0; round < 64; round += 1) {
        const at = start + 4 * round;
        const [two, fifteen] = [schedule[round - 2], schedule[round - 15]];
        schedule.push(
          round < 16
            ? (bytes[at] << 24) | (bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3]
            : ((rotate(two, 17) ^ rotate(two, 19) ^ (two >>> 10)) +
                schedule[round - 7] +
                (rotate(fifteen, 7) ^ rotate(fifteen, 18) ^ (fifteen >>> 3)) +
                schedule[round - 16]) |
                0,
        );
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let round = 0; round < 64; round += 1) {
        const first =
          (h +
            (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
            ((e & f) ^ (~e & g)) +
            constants[round] +
            schedule[round]) |
          0;
        const second =
          ((rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
      }
      [a, b, c, d, e, f, g, h].forEach((word, place) => {
        state[place] = (state[place] + word) | 0;
      });
    }
    return state
      .slice(0, 2)
      .map((word) => (word >>> 0).toString(16).padStart(8, "0"))
      .join("");
  }

  return modelKey;
})();
