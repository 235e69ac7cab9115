import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandLine, offerIn } from '../src/models';

const OFFER = { text: 'open-dcoder-0.5b runs here, too.', command: 'infill-ls models pull open-dcoder-0.5b', model: 'open-dcoder-0.5b' };

test('an offer is read from what the command prints', () => {
  assert.deepEqual(offerIn(JSON.stringify({ recommended: 'x', offer: OFFER })), OFFER);
});

test('no offer, an odd one and no JSON are none', () => {
  for (const output of ['{"offer": null}', '{}', '{"offer": {"text": 1}}', 'Traceback', '']) {
    assert.equal(offerIn(output), undefined);
  }
});

test('the terminal runs the infill-ls that was found', () => {
  assert.equal(commandLine(OFFER, '/x/infill-ls'), '/x/infill-ls models pull open-dcoder-0.5b');
  const both = { ...OFFER, command: "pip install 'infill-ls[4bit]' && infill-ls models pull dreamon-7b" };
  assert.equal(commandLine(both, '/a b/infill-ls'), "pip install 'infill-ls[4bit]' && \"/a b/infill-ls\" models pull dreamon-7b");
});
