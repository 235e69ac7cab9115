import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Drawing, drawn, drawnAround, MOST_CHARACTERS, MOST_PIECES } from '../src/draft_text';

const text = ({ pieces }: Drawing): string => pieces.map((piece) => piece.text).join('');

test('pieces of one tint are drawn as one', () => {
  assert.deepEqual(drawn(['a', 'b', 'c', 'd'], [0.9, 0.95, 0.5, 0.1], '').pieces, [
    { text: 'ab', tint: 'sure' },
    { text: 'c', tint: 'likely' },
    { text: 'd', tint: 'unsure' },
  ]);
});

test('what stands there already is not drawn again, at either end', () => {
  assert.equal(text(drawn(['os', '.path', '.join', '()'], [1, 1, 1, 1], 'os.p')), 'ath.join()');
  assert.equal(text(drawn(['name', ')'], [1, 1], ')')), 'name');
  assert.equal(text(drawn(['aa'], [1], 'aa')), '');
});

test('closers that it replaces and writes itself stay where they are', () => {
  const draw = (existing: string, pieces: string[]): unknown =>
    drawnAround(pieces, pieces.map(() => 1), existing).map((part) => [text(part), part.end]);
  const around = (existing: string): unknown => draw(existing, ['w', ', h)', ' > 0) {']);
  assert.deepEqual(around('))'), [['w, h', 0], [' > 0', 1], [' {', 2]]);
  assert.deepEqual(around('w))'), [[', h', 1], [' > 0', 2], [' {', 3]]);
  assert.deepEqual(around(']'), [['w, h) > 0) {', 1]]);
  assert.deepEqual(draw('w")', ['wor', 'ld", 1);']), [['orld', 1], [', 1', 2], [';', 3]]);
});

test('what it is drawn in the stead of are the words that differ', () => {
  const before = 'self.items.append(item)';
  const drawing = drawn(['self.items', '.add(item)'], [1, 1], before);
  assert.equal(text(drawing), 'add');
  assert.equal(before.slice(drawing.start, drawing.end), 'append');
  assert.deepEqual(drawn(['name'], [1], '???'), { pieces: [{ text: 'name', tint: 'sure' }], start: 0, end: 3 });
});

test('several lines are drawn as one, without their indentation', () => {
  assert.equal(text(drawn(['if x:\n', '        y()\r\n'], [1, 1], '')), 'if x: ⏎ y() ⏎ ');
});

test('a long draft is cut', () => {
  const long = text(drawn(['x'.repeat(100), 'y'.repeat(100)], [1, 0], ''));
  assert.equal(long.length, MOST_CHARACTERS + 1);
  assert.ok(long.endsWith('y…'));
});

test('more pieces than can be drawn are joined to the last', () => {
  const many = Array.from({ length: 100 }, (_, index) => index);
  const drawing = drawn(many.map(() => 'x'), many.map((index) => index % 2), '');
  assert.equal(drawing.pieces.length, MOST_PIECES);
  assert.equal(text(drawing).length, 100);
});
