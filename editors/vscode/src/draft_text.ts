/** A draft as pieces of one line, tinted by confidence. Knows no VS Code; offsets are indices into strings. */

import { isSubsequence } from './suggestion';

export type Tint = 'unsure' | 'likely' | 'sure';

export interface Piece {
  text: string;
  tint: Tint;
}

const LIKELY = 0.4;
const SURE = 0.8;
const LINE_END = ' ⏎ ';
/** Anything beyond is drawn with the last of them. */
export const MOST_PIECES = 24;
/** A decoration is one line: longer text is cut, and the hover shows the whole. */
export const MOST_CHARACTERS = 160;

/** The drawn part of a draft, and the part [start, end) of the existing text that it replaces. */
export interface Drawing {
  pieces: Piece[];
  start: number;
  end: number;
}

/**
 * What to draw of a draft that would replace `existing`. Text already there, at either end, is not drawn again;
 * neighbours of one tint are one piece; line ends are drawn as a sign.
 */
export function drawn(pieces: readonly string[], confidences: readonly number[], existing: string): Drawing {
  const text = pieces.join('');
  const same = commonStart(text, existing);
  const [start, kept] = toWords(text, existing, same, commonEnd(text.slice(same), existing.slice(same)));
  const drawing = clipped(merged(slices(pieces, confidences, start, text.length - kept)));
  return { pieces: drawing, start, end: existing.length - kept };
}

/**
 * The same for a draft that may replace a closing quote and brackets at the end of `existing` and write them itself: they
 * stay, and it is drawn around them.
 */
export function drawnAround(pieces: readonly string[], confidences: readonly number[], existing: string): Drawing[] {
  const text = pieces.join('');
  const same = commonStart(text, existing);
  const closers = existing.slice(same);
  if (!/^["'`]?[)\]}]*$/.test(closers) || !isSubsequence(closers, text.slice(same))) {
    return [drawn(pieces, confidences, existing)];
  }
  let from = same;
  const part = (to: number, place: number): Drawing => {
    const drawing = clipped(merged(slices(pieces, confidences, from, to)));
    from = to + 1;
    return { pieces: drawing, start: place, end: place };
  };
  const before = Array.from(closers, (closer, index) => part(text.indexOf(closer, from), same + index));
  return [...before, part(text.length, existing.length)];
}

/** Replacements cover whole words: `append` by `add`, not `ppen` by `dd`. */
function toWords(text: string, existing: string, start: number, kept: number): [number, number] {
  if (start + kept === existing.length) {
    return [start, kept];
  }
  while (isWord(existing[start - 1]) && (isWord(existing[start]) || isWord(text[start]))) {
    start--;
  }
  const [ends, textEnds] = [existing.length - 1, text.length - 1];
  while (isWord(existing[ends - kept + 1]) && (isWord(existing[ends - kept]) || isWord(text[textEnds - kept]))) {
    kept--;
  }
  return [start, kept];
}

function isWord(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}_]/u.test(character);
}

/** The tint of one probability. */
export function tintOf(confidence: number): Tint {
  return confidence >= SURE ? 'sure' : confidence >= LIKELY ? 'likely' : 'unsure';
}

function* slices(pieces: readonly string[], confidences: readonly number[], from: number, to: number): Generator<Piece> {
  let at = 0;
  for (const [index, piece] of pieces.entries()) {
    const text = piece.slice(Math.max(from - at, 0), Math.max(to - at, 0));
    if (text !== '') {
      yield { text, tint: tintOf(confidences[index] ?? 0) };
    }
    at += piece.length;
  }
}

function merged(pieces: Iterable<Piece>): Piece[] {
  const result: Piece[] = [];
  for (const piece of pieces) {
    const last = result.at(-1);
    const joins = last?.tint === piece.tint || piece.text.trim() === '' || result.length === MOST_PIECES;
    if (last !== undefined && joins) {
      last.text += piece.text;
    } else {
      result.push({ ...piece });
    }
  }
  return result;
}

function clipped(pieces: readonly Piece[]): Piece[] {
  const result: Piece[] = [];
  let room = MOST_CHARACTERS;
  for (const piece of pieces) {
    const text = piece.text.replace(/[ \t]*(\r\n|\r|\n)[ \t]*/g, LINE_END).replaceAll('\t', '    ');
    if (text.length > room) {
      result.push({ ...piece, text: `${text.slice(0, room)}…` });
      break;
    }
    result.push({ ...piece, text });
    room -= text.length;
  }
  return result;
}

function commonStart(one: string, other: string): number {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one[length] === other[length]) {
    length++;
  }
  return length;
}

function commonEnd(one: string, other: string): number {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one[one.length - 1 - length] === other[other.length - 1 - length]) {
    length++;
  }
  return length;
}
