import assert from 'node:assert/strict';
import { test } from 'node:test';
import { foundIn, isPull } from '../src/models';

const OFFER = { text: 'open-dcoder-0.5b runs here, too.', steps: [['infill-ls', 'models', 'pull', 'open-dcoder-0.5b']], use: [{ title: 'Use coder:0.5b from Ollama', model: '/o/blobs/sha256-ab' }], model: 'open-dcoder-0.5b' };

test('an offer is read from what the server answers', () => {
  assert.deepEqual(foundIn({ offer: { ...OFFER, shown: [] }, problem: '', model: null }), { offer: OFFER });
});

test('that there is none is told apart from that nobody knows yet', () => {
  const cases: [unknown, RegExp, boolean][] = [
    [{ offer: null, problem: '', model: null }, /No better model/, true],
    [{ offer: null, problem: '', model: 'x/y' }, /set to x\/y/, true],
    [{ offer: null, problem: 'no torch', model: null }, /could not be looked at: no torch/, false],
    ...[undefined, null, {}, { offer: { text: 1 } }, { offer: { ...OFFER, steps: ['a'] } }].map((answer): [unknown, RegExp, boolean] => [answer, /does not answer/, false]),
  ];
  for (const [answer, why, isFinal] of cases) {
    const found = foundIn(answer);
    assert.ok('why' in found && found.isFinal === isFinal);
    assert.match(found.why, why);
  }
});

test('a server that names no other models, or nonsense, offers none of them', () => {
  for (const use of [undefined, null, 'x', [1], [{ title: 'Use it' }]]) {
    assert.deepEqual(foundIn({ offer: { ...OFFER, use } }), { offer: { ...OFFER, use: [] } });
  }
});

test('a download is told apart from what a terminal has to do', () => {
  assert.ok(isPull(['infill-ls', 'models', 'pull', 'open-dcoder-0.5b']));
  assert.ok(!isPull(['python', '-m', 'pip', 'install', 'infill-ls[mlx]']));
});
