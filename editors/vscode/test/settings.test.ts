import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { changeable, needsRestart, USER_WIDENS, startOptions, STARTUP, toggled } from '../src/settings';

const SECTION = { executable: '/x', server: { path: '/x', plainHttp: true }, drafts: true, preview: true, model: 'm', trustWorkspace: true, maxSteps: 4 };

test('the server gets its settings at start, and none of the extension', () => {
  assert.deepEqual(startOptions(SECTION, undefined, true), {
    model: 'm', server: { plainHttp: true }, trustWorkspace: true, maxSteps: 4, secretGlobs: [],
  });
});

test('a workspace that is not trusted chooses nothing, whatever the settings say', () => {
  assert.equal(startOptions(SECTION, undefined, false)['trustWorkspace'], false);
});

test('what is read only at start is not sent again', () => {
  assert.deepEqual(changeable(SECTION, undefined, SECTION), { maxSteps: 4, secretGlobs: [] });
});

test('patterns for secrets of the user and the workspace add up', () => {
  const places = { globalValue: ['*.key', 'a'], workspaceValue: ['a', 'b'], workspaceFolderValue: 7 };
  assert.deepEqual(changeable({}, places, {})['secretGlobs'], ['*.key', 'a', 'b']);
});

test('only what is read at start takes a restart', () => {
  assert.ok(needsRestart(SECTION, { ...SECTION, model: 'other' }));
  assert.ok(needsRestart(SECTION, { ...SECTION, executable: '/y' }));
  assert.ok(needsRestart(SECTION, { ...SECTION, server: { path: '/y' } }));
  assert.ok(!needsRestart(SECTION, { ...SECTION, maxSteps: 5 }));
});

const USERS = { statistics: 'on', prefetch: true, context: { enabled: true } };

test('what only start options switch on is among them, takes a restart, and is not sent again', () => {
  assert.deepEqual(startOptions(USERS, undefined, true), { ...USERS, server: {}, secretGlobs: [] });
  const others = [
    { statistics: 'off' }, { prefetch: false },
    { context: { enabled: false } },
  ];
  for (const other of others) {
    assert.ok(needsRestart({ ...USERS, ...other }, USERS), JSON.stringify(other));
  }
  assert.deepEqual(changeable(USERS, undefined, USERS), { context: {}, secretGlobs: [] });
});

test('a folder says itself that it wants less than the window', () => {
  const folder = { ...USERS, context: { enabled: false } };
  assert.deepEqual(changeable(folder, undefined, USERS)['context'], { enabled: false });
});

test('a language goes off and on again', () => {
  assert.deepEqual(toggled(['go'], 'python'), ['go', 'python']);
  assert.deepEqual(toggled(['go', 'python'], 'python'), ['go']);
});

test('every setting of the manifest has a place: ours, at start, or while it runs', () => {
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as {
    contributes: { configuration: { properties: Record<string, { scope: string }> } };
  };
  const { properties } = manifest.contributes.configuration;
  for (const name of STARTUP) {
    const belongs = (key: string) => key === `infill.${name}` || key.startsWith(`infill.${name}.`);
    assert.ok(Object.keys(properties).some(belongs), name);
  }
  for (const name of USER_WIDENS) {
    assert.ok(`infill.${name}` in properties, name);
  }
  for (const name of ['model', 'device', 'dtype', 'trustWorkspace', 'executable', 'server.model', 'server.tokenizer', 'server.plainHttp']) {
    assert.equal(properties[`infill.${name}`]?.scope, 'machine', `a workspace must not set ${name}`);
  }
});
