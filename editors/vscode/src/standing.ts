/** Whether a document still stands as it did when something was said of a place in it. Knows no VS Code. */

/** What is looked at of a document of VS Code's. */
interface Changing {
  readonly version: number;
  readonly isClosed: boolean;
}

/** A document as it is now, to be asked later; undefined where it is not open. */
export class Standing<D extends Changing> {
  private readonly seen: number | undefined;

  constructor(private readonly document: D | undefined) {
    this.seen = document?.version;
  }

  /** The document if it is open and nothing in it has changed, else why not. */
  now(): D | 'closed' | 'changed' {
    if (this.document === undefined || this.document.isClosed) {
      return 'closed';
    }
    return this.document.version === this.seen ? this.document : 'changed';
  }
}
