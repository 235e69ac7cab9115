/** Whether a document is unchanged since a message about a place in it. Knows no VS Code. */

/** The relevant part of a VS Code document. */
interface Changing {
  readonly version: number;
  readonly isClosed: boolean;
}

/** A document's current state, to check later; undefined if it is not open. */
export class Standing<D extends Changing> {
  private readonly seen: number | undefined;

  constructor(private readonly document: D | undefined) {
    this.seen = document?.version;
  }

  /** The document if it is open and unchanged, otherwise why not. */
  now(): D | 'closed' | 'changed' {
    if (this.document === undefined || this.document.isClosed) {
      return 'closed';
    }
    return this.document.version === this.seen ? this.document : 'changed';
  }
}
