import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findServer, type Surroundings } from '../src/find_server';

function around(programs: string[], more: Partial<Surroundings> = {}): Surroundings {
  return {
    windows: false,
    home: '/home/me',
    setting: '',
    trusted: true,
    folders: ['/home/me/project'],
    python: undefined,
    searchPath: '/usr/local/bin:/usr/bin',
    own: undefined,
    isProgram: (file) => programs.includes(file),
    ...more,
  };
}

const ON_PATH = '/usr/bin/infill-ls';
const IN_WORKSPACE = '/home/me/project/.venv/bin/infill-ls';

test('the setting comes first, and ~ is the home folder', () => {
  const found = findServer(around(['/home/me/x/infill-ls', ON_PATH], { setting: '~/x/infill-ls' }));
  assert.deepEqual(found, { file: '/home/me/x/infill-ls', origin: 'the setting' });
});

test('a setting that names nothing is reported, and nothing replaces it', () => {
  for (const setting of ['/nowhere', 'relative/infill-ls']) {
    const found = findServer(around([ON_PATH], { setting }));
    assert.ok('problem' in found && found.problem.includes(setting));
  }
});

test('the selected Python environment comes before the .venv, and that before PATH', () => {
  const python = '/envs/a/bin/python';
  const all = ['/envs/a/bin/infill-ls', IN_WORKSPACE, ON_PATH];
  assert.equal(origin(around(all, { python })), 'the Python environment');
  assert.equal(origin(around(all)), "the workspace's .venv");
  assert.equal(origin(around([ON_PATH])), 'PATH');
});

test("the extension's own comes last, after what a bundle installed, and that after PATH", () => {
  const own = '/home/me/.config/storage/server-1/env/bin/infill-ls';
  const bundled = '/home/me/.infill-ls/bin/infill-ls';
  assert.equal(origin(around([own, bundled], { own })), 'a bundle');
  assert.equal(origin(around([bundled, ON_PATH])), 'PATH');
  assert.equal(origin(around([own], { own })), 'the extension');
  assert.equal(origin(around([own, ON_PATH], { own })), 'PATH');
});

test('in a restricted workspace nothing inside it is used, by whichever way it was found', () => {
  const restricted = { trusted: false, searchPath: '/home/me/project/.venv/bin:/home/me/project:/usr/bin' };
  const programs = [IN_WORKSPACE, '/home/me/project/infill-ls', ON_PATH];
  assert.deepEqual(findServer(around(programs, restricted)), { file: ON_PATH, origin: 'PATH' });
  const found = findServer(around([IN_WORKSPACE], { ...restricted, python: '/home/me/project/.venv/bin/python' }));
  assert.ok('problem' in found && found.problem.includes('restricted'));
});

test('a folder beside the workspace with a longer name is not inside it', () => {
  const beside = '/home/me/project-tools/infill-ls';
  assert.equal(origin(around([beside], { trusted: false, searchPath: '/home/me/project-tools' })), 'PATH');
});

test('entries of PATH that are relative, as . is, are passed over', () => {
  assert.ok('problem' in findServer(around(['infill-ls', './infill-ls'], { searchPath: '.::bin' })));
});

test('on Windows it is infill-ls.exe, in Scripts, and PATH has semicolons', () => {
  const windows = { windows: true, folders: ['C:\\work'], searchPath: 'D:\\one;D:\\two' };
  assert.equal(origin(around(['C:\\work\\.venv\\Scripts\\infill-ls.exe'], windows)), "the workspace's .venv");
  assert.equal(origin(around(['D:\\two\\infill-ls.exe'], windows)), 'PATH');
});

function origin(surroundings: Surroundings): string {
  const found = findServer(surroundings);
  return 'file' in found ? found.origin : found.problem;
}
