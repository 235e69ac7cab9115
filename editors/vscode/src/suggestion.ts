/** The inline suggestion that was offered last, and how much of it a change of the text takes. Knows no VS Code. */

/** One offered item. `start` is where its text would begin, an offset into the document in UTF-16 units. */
export interface Offered {
  id: string;
  start: number;
  text: string;
}

/** One edit of a document: `length` units from `offset` on are replaced by `text`. */
export interface Change {
  offset: number;
  length: number;
  text: string;
}

/**
 * How long the part of `offered` is that stands in the document after `change`, in UTF-16 units from the start of its
 * text, when the change took a part of it (a word, a line) at once. Undefined when it did something else: typed one
 * character, took the whole, or wrote what was not offered. `standing` is what stood of it before.
 */
export function takenBy(change: Change, offered: Offered, standing: string): number | undefined {
  const before = change.offset - offered.start;
  if (before < 0 || change.length !== 0 || change.text.length < 2 || before !== standing.length) {
    return undefined;
  }
  const after = standing + change.text;
  return offered.text.startsWith(after) && after.length < offered.text.length ? after.length : undefined;
}

/** Whether something of `offered` is left at `cursor`, an offset in UTF-16 units. `standing`: the text from its start to there. */
export function isLeft(offered: Offered, cursor: number, standing: string): boolean {
  return offered.start <= cursor && offered.text.startsWith(standing) && standing.length < offered.text.length;
}
