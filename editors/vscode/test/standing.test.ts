import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Standing } from '../src/standing';

test('a document that nobody touched is the one that was meant', () => {
  const document = { version: 3, isClosed: false };
  assert.equal(new Standing(document).now(), document);
});

test('what was typed since, and even undone, makes it another', () => {
  const document = { version: 3, isClosed: false };
  const standing = new Standing(document);
  document.version += 2;
  assert.equal(standing.now(), 'changed');
});

test('one that was closed since, or was not open at all, is not opened again', () => {
  const document = { version: 3, isClosed: false };
  const standing = new Standing(document);
  document.isClosed = true;
  assert.equal(standing.now(), 'closed');
  assert.equal(new Standing(undefined).now(), 'closed');
});
