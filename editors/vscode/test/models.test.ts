import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isPull, offerIn } from '../src/models';

const OFFER = { text: 'open-dcoder-0.5b runs here, too.', steps: [['infill-ls', 'models', 'pull', 'open-dcoder-0.5b']], use: [{ title: 'Use coder:0.5b from Ollama', model: '/o/blobs/sha256-ab' }], model: 'open-dcoder-0.5b' };

function reason(answer: object): string {
  const found = offerIn(answer);
  return typeof found === 'string' ? found : '';
}

test('an offer is read from what the server answers', () => {
  assert.deepEqual(offerIn({ offer: { ...OFFER, shown: [] }, problem: '', model: null }), OFFER);
});

test('that there is none is told apart from that nobody knows', () => {
  assert.match(reason({ offer: null, problem: '', model: null }), /No better model/);
  assert.match(reason({ offer: null, problem: 'no torch', model: null }), /could not be looked at: no torch/);
  assert.match(reason({ offer: null, problem: '', model: 'x/y' }), /set to x\/y/);
  for (const answer of [undefined, null, {}, { offer: { text: 1 } }, { offer: { ...OFFER, steps: ['a'] } }]) {
    assert.equal(offerIn(answer), undefined);
  }
});

test('a server that names no other models, or nonsense, offers none of them', () => {
  for (const use of [undefined, null, 'x', [1], [{ title: 'Use it' }]]) {
    assert.deepEqual(offerIn({ offer: { ...OFFER, use } }), { ...OFFER, use: [] });
  }
});

test('a download is told apart from what a terminal has to do', () => {
  assert.ok(isPull(['infill-ls', 'models', 'pull', 'open-dcoder-0.5b']));
  assert.ok(!isPull(['python', '-m', 'pip', 'install', 'infill-ls[4bit]']));
});
