import assert from 'node:assert/strict';
import { test } from 'node:test';
import { offByScheme } from '../src/schemes';
import { isFailure, lookOf, lookWithout, snoozed } from '../src/status';

const REPORT = { state: 'ready', detail: '', progress: 0, model: 'embedded', device: 'cpu' };

test('loading shows how far it is', () => {
  assert.match(lookOf({ ...REPORT, state: 'loading', progress: 0.424, detail: 'reading weights' }).text, /infill 42%$/);
});

test('ready and busy name the model and the device', () => {
  for (const state of ['ready', 'busy']) {
    assert.match(lookOf({ ...REPORT, state }).tooltip, /embedded on cpu/);
  }
});

test('the status says where text goes, and a failing server is a warning until it answers', () => {
  const served = { ...REPORT, model: 'gemma', device: 'gpu:443', server: 'https://gpu', serverProblem: '' };
  assert.match(lookOf(served).tooltip, /gemma on gpu:443\n\nText goes to https:\/\/gpu/);
  assert.doesNotMatch(lookOf({ ...REPORT, server: '' }).tooltip, /Text goes/);
  const failing = lookOf({ ...served, serverProblem: 'it cannot be reached' });
  assert.equal(failing.level, 'warning');
  assert.match(failing.tooltip, /it cannot be reached/);
});

test('the partner is named, with its state or why it cannot be asked', () => {
  const partner = { name: 'qwen', state: 'ready', problem: '' };
  for (const state of ['ready', 'busy']) {
    assert.match(lookOf({ ...REPORT, state, partner }).tooltip, /embedded on cpu\n\nPartner: qwen, ready$/);
  }
  assert.match(lookOf({ ...REPORT, partner: { ...partner, state: 'stopped' } }).tooltip, /Partner: qwen, not asked yet$/);
  const failing = lookOf({ ...REPORT, partner: { ...partner, state: 'backing_off', problem: 'it cannot be reached' } });
  assert.equal(failing.level, 'plain', 'drafts come without it');
  assert.match(failing.tooltip, /Partner: qwen, it cannot be reached$/);
  assert.doesNotMatch(lookOf({ ...REPORT, partner: null }).tooltip, /Partner/);
});

test('what the user should know of the model is told', () => {
  assert.match(lookOf({ ...REPORT, note: '4 of the last 4 suggestions were cut short' }).tooltip, /cpu\n\n4 of the last 4/);
});

test('a file that is off says why', () => {
  const look = lookOf({ ...REPORT, off: 'it may hold secrets' });
  assert.match(look.text, /circle-slash/);
  assert.match(look.tooltip, /it may hold secrets/);
});

test('a failure is an error with its reason, also for a file that is off', () => {
  const look = lookOf({ ...REPORT, state: 'failed', detail: 'no such model', off: 'disabled' });
  assert.equal(look.level, 'error');
  assert.match(look.tooltip, /no such model/);
  assert.ok(isFailure({ ...REPORT, state: 'backing_off' }));
});

test('without a server there is a reason to click on', () => {
  assert.equal(lookWithout('missing', 'infill-ls was not found').level, 'error');
  assert.ok(lookWithout('missing', 'infill-ls was not found').installs);
  assert.ok(lookWithout('broken', 'it ended too often').installs);
  assert.ok(!lookWithout('gone', 'it ended too often').installs, 'another server comes first');
  assert.ok(!lookWithout('misconfigured', 'infill.executable names no program').installs);
  assert.equal(lookWithout('installing', 'infill-ls was not found').level, 'plain');
  assert.match(lookWithout('waiting', 'it is started again in 2 s').tooltip, /2 s/);
});

test('a state that this release does not know is no error', () => {
  assert.equal(lookOf({ ...REPORT, state: 'dreaming' }).level, 'plain');
});

test('a snooze shows its minutes and ends by a click, and a failure is shown all the same', () => {
  const look = snoozed(lookOf(REPORT), 7);
  assert.match(look.text, /infill 7 min$/);
  assert.equal(look.command, 'infill.endSnooze');
  assert.deepEqual(snoozed(lookOf(REPORT), 0), lookOf(REPORT));
  const failed = lookOf({ ...REPORT, state: 'failed' });
  assert.equal(snoozed(failed, 7), failed);
});

test('a document gets fills, or a reason that fits its scheme', () => {
  for (const scheme of ['file', 'untitled', 'vscode-notebook-cell']) {
    assert.equal(offByScheme(scheme), undefined);
  }
  const words = {
    'search-editor': /search/, 'output': /output/, 'git': /source control/, 'vscode-userdata': /settings/,
    'vscode-interactive-input': /console/, 'vscode-notebook-cell-output': /outputs/, 'comment': /comment/,
    'vscode-scm': /commit message/, 'vscode-chat-input': /chat/, 'vscode-vfs': /begins with vscode-vfs:/,
  };
  for (const [scheme, reason] of Object.entries(words)) {
    assert.match(offByScheme(scheme) ?? '', reason);
  }
});

test('the tooltip says why nothing is suggested at the cursor', () => {
  assert.match(lookOf({ ...REPORT, noSuggestion: 'it repeats the line above' }).tooltip, /cpu\n\nNo suggestion here: it repeats/);
  assert.doesNotMatch(lookOf({ ...REPORT, noSuggestion: null }).tooltip, /No suggestion/);
});
