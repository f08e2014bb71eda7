// True names beside handles: `asset_0042` is what the model read, the code behind it is what was
// traded.

class Names {
  constructor(head) {
    this.assets = new Map(
      head.handles.map((handle, place) => [handle, [head.codes[place], head.companies[place]]]),
    );
    this.sectors = new Map(Object.entries(head.sectors));
    this.days = head.days;
    this.firstDay = head.first_day;
    this.handles = new Map([...this.assets].map(([handle, [code]]) => [code, handle]));
    this.companies = new Map([...this.assets.values()]);
    this.pattern = /\b(?:asset_\d{4,}|sector_\d{2,}|\d{6}\.(?:SH|SZ|BJ))\b|\bday_[+-]\d{1,6}\b/gi;
  }

  get isEmpty() {
    return this.assets.size === 0;
  }

  /**
   * {code, company, truth} of an asset's handle, or null. `truth` is what stands beside it; empty
   * where it is the code itself.
   */
  asset(handle) {
    const found =
      this.assets.get(handle) ||
      this.assets.get(handle.toLowerCase()) ||
      this.assets.get(handle.toUpperCase());
    if (!found) return null;
    const [code, company] = found;
    return {code, company, truth: code.toLowerCase() === handle.toLowerCase() ? company : code};
  }

  company(code) {
    return this.companies.get(code) || "";
  }

  day(handle) {
    const place = Number(handle.slice(4)) - this.firstDay;
    return this.days[place] || null;
  }

  /** What a handle stands for, in words for a search or a title; empty where it is unknown. */
  truth(handle) {
    if (/^day_/i.test(handle)) return this.day(handle) || "";
    if (/^sector_/i.test(handle)) return this.sectors.get(handle.toLowerCase()) || "";
    const asset = this.asset(handle);
    return asset ? asset.truth : "";
  }

  /**
   * The text with its handles marked; copying it gives the text alone, since the names beside them
   * are style.
   */
  mark(text) {
    const parts = [];
    let done = 0;
    for (const match of text.matchAll(this.pattern)) {
      const truth = this.truth(match[0]);
      if (!truth) continue;
      parts.push(text.slice(done, match.index));
      const asset = this.asset(match[0]);
      const title = asset ? `${asset.code} ${asset.company}` : truth;
      parts.push(
        el(
          "span.handle",
          {"data-true": truth, "data-code": asset ? asset.code : null, title},
          match[0],
        ),
      );
      done = match.index + match[0].length;
    }
    parts.push(text.slice(done));
    return parts;
  }
}
