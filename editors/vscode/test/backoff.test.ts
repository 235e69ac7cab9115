import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Backoff } from '../src/backoff';

function clock(): { now: () => number; pass: (ms: number) => void } {
  let time = 0;
  return { now: () => time, pass: (ms) => (time += ms) };
}

test('each end in a row is waited for twice as long, and after five it is enough', () => {
  const backoff = new Backoff(clock().now);
  const pauses = Array.from({ length: 6 }, () => backoff.ended());
  assert.deepEqual(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, undefined]);
});

test('ends that lie long apart do not add up', () => {
  const { now, pass } = clock();
  const backoff = new Backoff(now);
  for (let day = 0; day < 20; day++) {
    assert.equal(backoff.ended(), 1_000);
    pass(24 * 3_600_000);
  }
});

test('after the user has asked for a start, it counts from zero', () => {
  const backoff = new Backoff(clock().now);
  Array.from({ length: 6 }, () => backoff.ended());
  backoff.reset();
  assert.equal(backoff.ended(), 1_000);
});
