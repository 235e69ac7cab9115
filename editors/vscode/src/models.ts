/** The server's offer to a new user. Knows no VS Code and starts nothing. */

export interface Offer {
  text: string;
  /** The commands that get the model, each as its words; none if it is already here. */
  steps: string[][];
  /** Models that other programs have downloaded: the title of a button, and the value of the setting. */
  use: { title: string; model: string }[];
  /** The value of the setting `infill.model`. */
  model: string;
}

/** The offer, or a message for the user why there is none. `isFinal`: to ask again would not change that. */
export type Found = { offer: Offer } | { why: string; isFinal: boolean };

/** What the server's answer says; undefined stands for no answer. */
export function foundIn(answer: unknown): Found {
  const { offer, problem, model } = (answer ?? {}) as { offer?: Partial<Offer> | null; problem?: unknown; model?: unknown };
  if (typeof offer?.text === 'string' && typeof offer.model === 'string' && isSteps(offer.steps)) {
    return { offer: { text: offer.text, steps: offer.steps, use: isUse(offer.use) ? offer.use : [], model: offer.model } };
  }
  if (typeof model === 'string') {
    return { why: `The model is set to ${model}; \`infill-ls models\` in a new terminal of VS Code shows all.`, isFinal: true };
  }
  if (typeof problem === 'string' && problem !== '') {
    return { why: `This machine could not be looked at: ${problem}. Run \`infill-ls doctor\` in a new terminal of VS Code.`, isFinal: false };
  }
  if (offer === null) {
    return { why: 'No better model than the embedded one runs on this machine; `infill-ls models` in a new terminal of VS Code says why.', isFinal: true };
  }
  return { why: 'infill-ls does not answer; `infill-ls models` in a new terminal of VS Code shows the models.', isFinal: false };
}

/** Whether a step is a download, which the server does itself: no terminal and no shell is needed. */
export function isPull(step: string[]): boolean {
  return step[0] === 'infill-ls' && step[1] === 'models' && step[2] === 'pull';
}

function isUse(value: unknown): value is Offer['use'] {
  const isOne = (one: unknown): boolean => {
    const { title, model } = (one ?? {}) as { title?: unknown; model?: unknown };
    return typeof title === 'string' && typeof model === 'string';
  };
  return Array.isArray(value) && value.every(isOne);
}

function isSteps(value: unknown): value is string[][] {
  return Array.isArray(value) && value.every((step) => Array.isArray(step) && step.every((word) => typeof word === 'string'));
}
