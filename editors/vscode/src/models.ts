/** What `infill-ls models --json` offers a new user. Knows no VS Code and starts nothing. */

export interface Offer {
  text: string;
  /** Downloads the model; empty where it is here. */
  command: string;
  /** The value of the setting `infill.model`. */
  model: string;
}

/** The offer in what the command printed; undefined where there is none, or it makes no sense. */
export function offerIn(output: string): Offer | undefined {
  try {
    const { offer } = JSON.parse(output) as { offer?: Partial<Offer> | null };
    const { text, command, model } = offer ?? {};
    return typeof text === 'string' && typeof command === 'string' && typeof model === 'string' ? { text, command, model } : undefined;
  } catch {
    return undefined;
  }
}

/** The command of an offer for a terminal in which infill-ls may not be on PATH. */
export function commandLine(offer: Offer, file: string): string {
  const quoted = file.includes(' ') ? `"${file}"` : file;
  return offer.command.replace(/(^|&& )infill-ls /, (_, before: string) => `${before}${quoted} `);
}
