// Reads the append-only NDJSON string of a run: every update parses only what is new.

const MOST_PROBLEMS = 20;

/** @typedef {{code: "bad_line"|"not_event"|"gap"|"order", [value: string]: any}} Problem */

/** Parser of one growing string. `feed` returns the new events and whether another run began. */
export class TailParser {
  constructor() {
    this.reset();
  }

  reset() {
    this.consumed = 0;
    this.head = "";
    this.seam = "";
    this.line = 0;
    this.nextSeq = 0;
    /** Bad lines and gaps in seq, worth telling. @type {Problem[]} */
    this.problems = [];
  }

  /**
   * @param {string} text the whole string so far; its last line may be incomplete
   * @returns {{events: object[], restarted: boolean}}
   */
  feed(text) {
    const restarted = !this.#continues(text);
    if (restarted) this.reset();
    const events = [];
    let end;
    while ((end = text.indexOf("\n", this.consumed)) >= 0) {
      const line = text.slice(this.consumed, end);
      this.consumed = end + 1;
      this.line++;
      if (line.trim()) this.#read(line, events);
    }
    this.head = text.slice(0, Math.min(this.consumed, 200));
    this.seam = text.slice(Math.max(0, this.consumed - 80), this.consumed);
    return { events, restarted };
  }

  // Comparing the whole string would cost more than parsing the tail; its beginning (with the run's id) and the text just
  // before the seam are enough to tell another run.
  #continues(text) {
    return text.length >= this.consumed && text.startsWith(this.head) && text.startsWith(this.seam, this.consumed - this.seam.length);
  }

  #read(line, events) {
    let event;
    try {
      event = JSON.parse(line);
    } catch {
      return this.#tell({ code: "bad_line", line: this.line });
    }
    if (event === null || typeof event !== "object" || typeof event.type !== "string" || !Number.isSafeInteger(event.seq)) {
      return this.#tell({ code: "not_event", line: this.line });
    }
    // A text may hold several runs, one after another: each begins with its header.
    if (event.seq === 0 && event.type === "header") this.nextSeq = 0;
    if (event.seq > this.nextSeq) this.#tell({ code: "gap", from: this.nextSeq, to: event.seq - 1 });
    if (event.seq < this.nextSeq) this.#tell({ code: "order", seq: event.seq });
    this.nextSeq = event.seq + 1;
    return events.push(event);
  }

  #tell(problem) {
    if (this.problems.length < MOST_PROBLEMS) this.problems.push(problem);
  }
}
