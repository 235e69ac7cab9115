import assert from 'node:assert/strict';
import { win32 } from 'node:path';
import { test } from 'node:test';
import { failureOf, serversFolder } from '../src/own_server';

test('an index that cannot be reached is said, not what pip makes of it', () => {
  const retry = "WARNING: Retrying (Retry(total=0)) after connection broken by 'ProxyError()': /simple/torch/";
  assert.match(failureOf('python', `${retry}\nERROR: No matching distribution found for torch\n`), /^the package index cannot be reached\. .*HTTPS_PROXY/);
  assert.match(failureOf('uv', 'error: Request failed\ncause: error sending request for url'), /^the package index/);
});

test('a full disk is said', () => {
  for (const sign of ['ERROR: [Errno 28] No space left on device', '[Errno 122] Disk quota exceeded', 'There is not enough space on the disk. (os error 112)']) {
    assert.match(failureOf('python', `${sign}\n`), /^the disk is full/);
  }
});

test('any other failure is told by the last line', () => {
  assert.equal(failureOf('python', 'one\r\nERROR: two\n\n'), 'python failed: ERROR: two');
});

test('on Windows no path of an installation is too long', () => {
  const folder = serversFolder(true, `C:\\Users\\${'n'.repeat(20)}`, 'C:\\elsewhere');
  const longest = 167; // in torch's wheel for Windows
  assert.ok(win32.join(folder, 'server-0123456789ab', 'env', 'Lib', 'site-packages', 'n'.repeat(longest)).length < 260);
  assert.equal(serversFolder(false, '/home/n', '/home/n/storage'), '/home/n/storage');
});
