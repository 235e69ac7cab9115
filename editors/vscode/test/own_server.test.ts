import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failureOf } from '../src/own_server';

test('an index that cannot be reached is said, not what pip makes of it', () => {
  const retry = "WARNING: Retrying (Retry(total=0)) after connection broken by 'ProxyError()': /simple/torch/";
  assert.match(failureOf('python', `${retry}\nERROR: No matching distribution found for torch\n`), /^the package index cannot be reached\. .*HTTPS_PROXY/);
  assert.match(failureOf('uv', 'error: Request failed\ncause: error sending request for url'), /^the package index/);
});

test('a full disk is said', () => {
  assert.match(failureOf('python', 'ERROR: [Errno 28] No space left on device\n'), /^the disk is full/);
});

test('any other failure is told by the last line', () => {
  assert.equal(failureOf('python', 'one\r\nERROR: two\n\n'), 'python failed: ERROR: two');
});
