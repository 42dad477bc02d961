// Reads the append-only NDJSON string of a run: every update parses only what is new.

/** Parser of one growing string. `feed` returns the new events and whether another run began. */
export class TailParser {
  constructor() {
    this.reset();
  }

  reset() {
    this.consumed = 0;
    this.head = "";
    this.seam = "";
    this.nextSeq = 0;
    /** Problems worth telling: bad lines and gaps in seq. */
    this.problems = [];
  }

  /** @param {string} text the whole string so far @returns {{events: object[], restarted: boolean}} */
  feed(text) {
    const restarted = !this.#continues(text);
    if (restarted) this.reset();
    const events = [];
    let end;
    while ((end = text.indexOf("\n", this.consumed)) >= 0) {
      const line = text.slice(this.consumed, end);
      this.consumed = end + 1;
      if (line.trim()) this.#line(line, events);
    }
    this.head = text.slice(0, 160);
    this.seam = text.slice(Math.max(0, this.consumed - 80), this.consumed);
    return { events, restarted };
  }

  // Comparing the whole string would cost more than parsing the tail; its beginning (with the run's id) and the text just
  // before the seam are enough to tell another run.
  #continues(text) {
    if (text.length < this.consumed) return false;
    return text.startsWith(this.head.slice(0, Math.min(this.head.length, this.consumed))) && text.startsWith(this.seam, this.consumed - this.seam.length);
  }

  #line(line, events) {
    let event;
    try {
      event = JSON.parse(line);
    } catch {
      this.problems.push("a line that is not JSON was skipped");
      return;
    }
    if (event === null || typeof event !== "object" || typeof event.type !== "string") {
      this.problems.push("a line that is no event was skipped");
      return;
    }
    if (event.seq !== this.nextSeq) this.problems.push(`events ${this.nextSeq} to ${event.seq - 1} are missing`);
    this.nextSeq = event.seq + 1;
    events.push(event);
  }
}
