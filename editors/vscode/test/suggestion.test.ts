import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLeft, isSubsequence, takenBy } from '../src/suggestion';

const OFFERED = { id: '1', start: 10, text: 'path.join(name)' };

test('a word that was taken counts from the start of the suggestion', () => {
  assert.equal(takenBy({ offset: 10, length: 0, text: 'path' }, OFFERED, ''), 4);
  assert.equal(takenBy({ offset: 14, length: 0, text: '.join' }, OFFERED, 'path'), 9);
});

test('a suggestion that begins before the cursor is measured from its own start', () => {
  assert.equal(takenBy({ offset: 12, length: 0, text: 'th.' }, OFFERED, 'pa'), 5);
});

test('a typed character is no acceptance, and neither is the whole, other text or a replacement', () => {
  assert.equal(takenBy({ offset: 10, length: 0, text: 'p' }, OFFERED, ''), undefined);
  assert.equal(takenBy({ offset: 10, length: 0, text: OFFERED.text }, OFFERED, ''), undefined);
  assert.equal(takenBy({ offset: 10, length: 0, text: 'paste' }, OFFERED, ''), undefined);
  assert.equal(takenBy({ offset: 10, length: 2, text: 'path' }, OFFERED, ''), undefined);
  assert.equal(takenBy({ offset: 3, length: 0, text: 'path' }, OFFERED, ''), undefined);
});

test('a suggestion is on screen while a part of it is still to come', () => {
  assert.ok(isLeft(OFFERED, 10, ''));
  assert.ok(isLeft(OFFERED, 14, 'path'));
  assert.ok(!isLeft(OFFERED, 10 + OFFERED.text.length, OFFERED.text), 'all of it was taken');
  assert.ok(!isLeft(OFFERED, 12, 'pr'), 'something else was typed');
  assert.ok(!isLeft(OFFERED, 9, ''), 'the cursor is before it');
});

test('a completion is listed for characters that come in it in that order', () => {
  for (const [typed, text, listed] of [['', 'a', true], ['wrp', 'editor.wordwrap', true], ['paw', 'wrap', false]] as const) {
    assert.equal(isSubsequence(typed, text), listed);
  }
});
