import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join, win32 } from 'node:path';
import { test } from 'node:test';
import { failureOf, OwnServer, plain, serversFolder } from '../src/own_server';

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

test("what pip says of its longest step is said in our words", () => {
  assert.equal(plain('Installing collected packages: mpmath, urllib3, torch'), 'unpacking the packages');
  assert.equal(plain('Successfully uninstalled setuptools-65.5.0'), 'unpacking the packages');
  assert.equal(plain('Collecting torch'), 'Collecting torch');
});

test('an installation runs nothing of the workspace', { skip: process.platform === 'win32' }, async () => {
  const [folder, before] = [mkdtempSync(join(tmpdir(), 'infill-')), process.env['PATH']];
  writeFileSync(join(folder, 'infill_ls.whl'), '');
  writeFileSync(join(folder, 'python3'), `#!/bin/sh\npwd -P > '${folder}/where'\nexit 1\n`, { mode: 0o755 });
  process.env['PATH'] = folder;
  await assert.rejects(new OwnServer(folder, folder).install({ line: () => undefined, onCancel: () => undefined }), /there is no Python/);
  process.env['PATH'] = before;
  assert.equal(readFileSync(join(folder, 'where'), 'utf8').trim(), realpathSync(homedir()));
});

test('on Windows no path of an installation is too long', () => {
  const folder = serversFolder(true, `C:\\Users\\${'n'.repeat(20)}`, 'C:\\elsewhere');
  const longest = 167; // in torch's wheel for Windows
  assert.ok(win32.join(folder, 'server-0123456789ab', 'env', 'Lib', 'site-packages', 'n'.repeat(longest)).length < 260);
  assert.equal(serversFolder(false, '/home/n', '/home/n/storage'), '/home/n/storage');
});

test('all that installs takes the Pythons that the server does', () => {
  const [, low, high] = /requires-python = ">=3\.(\d+),<3\.(\d+)"/.exec(ours('pyproject.toml')) ?? [];
  for (const file of ['Makefile', 'editors/nvim/lua/infill/install.lua', 'editors/vscode/src/own_server.ts']) {
    assert.ok(ours(file).includes(`not (3, ${low}) <= sys.version_info < (3, ${high})`), file);
  }
  assert.ok(ours('editors/vscode/src/own_server.ts').includes(`'>=3.${low},<3.${high}'`));
});

const UV = join(dirname(process.env['INFILL_LS'] ?? ''), 'uv');
const missing = existsSync(UV) ? false : `there is no ${UV}`;

test('uv takes PyTorch with CUDA for a GPU alone', { skip: missing }, () => {
  for (const file of ['README.md', 'Makefile', 'editors/nvim/lua/infill/install.lua', 'editors/vscode/src/own_server.ts']) {
    assert.match(ours(file), /--torch-backend(', '| )auto/, file);
  }
  assert.match(asked('580.65.06'), /download\.pytorch\.org\/whl\/cu1/);
  if (!existsSync('/proc/driver/nvidia')) {
    assert.match(asked(''), /download\.pytorch\.org\/whl\/cpu\//);
  }
});

function ours(file: string): string {
  return readFileSync(join('..', '..', file), 'utf8');
}

/** The index that uv asks for torch where this is the GPU's driver; it reaches none. */
function asked(driver: string): string {
  const env = { ...process.env, HTTPS_PROXY: 'http://127.0.0.1:9', UV_HTTP_RETRIES: '0', UV_CUDA_DRIVER_VERSION: driver };
  const words = ['pip', 'install', '--dry-run', '--no-cache', '--python', join(dirname(UV), 'python'), '--torch-backend', 'auto', '--reinstall', 'torch'];
  return spawnSync(UV, words, { env, encoding: 'utf8' }).stderr;
}
