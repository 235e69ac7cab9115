import assert from 'node:assert/strict';
import { test } from 'node:test';
import { offerIn, stepsHere } from '../src/models';

const OFFER = { text: 'open-dcoder-0.5b runs here, too.', steps: [['infill-ls', 'models', 'pull', 'open-dcoder-0.5b']], model: 'open-dcoder-0.5b' };

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

test('each step runs the infill-ls that was found, and is words that no shell has to take apart', () => {
  const install = ['C:\\Program Files\\python.exe', '-m', 'pip', 'install', 'infill-ls[4bit]'];
  const steps = stepsHere({ ...OFFER, steps: [install, ...OFFER.steps] }, 'C:\\a b\\infill-ls.exe');
  assert.deepEqual(steps, [install, ['C:\\a b\\infill-ls.exe', 'models', 'pull', 'open-dcoder-0.5b']]);
});
