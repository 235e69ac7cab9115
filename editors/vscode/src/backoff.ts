/** How long to wait before restarting a server that ended, and when to stop trying. */

const FIRST_MS = 1_000;
const WINDOW_MS = 180_000;
const MOST_ENDS = 5;

export class Backoff {
  private ends: number[] = [];

  /** `now` returns milliseconds. */
  constructor(private readonly now: () => number = Date.now) {}

  /** The server has ended by itself. Returns the pause in ms; undefined when it ended too often in three minutes. */
  ended(): number | undefined {
    const now = this.now();
    this.ends = [...this.ends.filter((at) => now - at < WINDOW_MS), now];
    return this.ends.length > MOST_ENDS ? undefined : FIRST_MS * 2 ** (this.ends.length - 1);
  }

  /** The user has asked for a new start: forget earlier failures. */
  reset(): void {
    this.ends = [];
  }
}
