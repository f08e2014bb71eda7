// Pieces of packed data.

/**
 * Pieces of packed days: each is unpacked when a day in it is wanted, and the last few are kept.
 */
class Pieces {
  constructor(counts) {
    this.counts = counts;
    this.starts = counts.map((_, place) =>
      counts.slice(0, place).reduce((sum, number) => sum + number, 0),
    );
    this.kept = new Map();
  }

  get length() {
    return this.counts.length;
  }

  first(piece) {
    return this.starts[piece];
  }

  /** JSON of each day of a piece. */
  lines(piece) {
    if (!this.kept.has(piece)) {
      if (this.kept.size >= 6) this.kept.delete(this.kept.keys().next().value);
      this.kept.set(
        piece,
        unpack(`days-${piece}`).then((text) => text.split("\n")),
      );
    }
    return this.kept.get(piece);
  }

  /** Places of all days of which a test of their JSON holds, or null once the search is given up. */
  async find(test, isGivenUp) {
    const found = new Set();
    for (let piece = 0; piece < this.length; piece += 1) {
      const lines = await this.lines(piece);
      if (isGivenUp()) return null;
      lines.forEach((packed, place) => {
        if (test(packed)) found.add(this.first(piece) + place);
      });
      await new Promise((done) => setTimeout(done)); // so that the page answers meanwhile
    }
    return isGivenUp() ? null : found;
  }

  async day(day) {
    const piece = this.starts.findLastIndex((start) => start <= day);
    return JSON.parse((await this.lines(piece))[day - this.starts[piece]]);
  }
}
