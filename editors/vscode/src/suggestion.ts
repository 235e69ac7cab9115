/** The last inline suggestion offered, and how much of it a change of the text accepts. Knows no VS Code. */

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
 * Length of `offered` now in the document, in UTF-16 units from the start of its text, when `change` accepted part of
 * it (a word, a line). Undefined for any other change: typing one character, accepting the whole, or writing other
 * text. `standing` is the part already in the document before.
 */
export function takenBy(change: Change, offered: Offered, standing: string): number | undefined {
  const before = change.offset - offered.start;
  if (before < 0 || change.length !== 0 || change.text.length < 2 || before !== standing.length) {
    return undefined;
  }
  const after = standing + change.text;
  return offered.text.startsWith(after) && after.length < offered.text.length ? after.length : undefined;
}

/** Whether the characters of `typed` come in `text` in that order: VS Code lists such a completion. */
export function isSubsequence(typed: string, text: string): boolean {
  let from = 0;
  return Array.from(typed).every((character) => (from = text.indexOf(character, from) + 1) > 0);
}

/** Whether any of `offered` is left at `cursor` (an offset in UTF-16 units). `standing`: its text up to there. */
export function isLeft(offered: Offered, cursor: number, standing: string): boolean {
  return offered.start <= cursor && offered.text.startsWith(standing) && standing.length < offered.text.length;
}
