/** Asking the partner, a larger model on a server: about the suggestion on screen, a selection or a fill just made. */
import * as vscode from 'vscode';
import { ExecuteCommandRequest, type LanguageClient, type Range } from 'vscode-languageclient/node';
import type { Fills } from './fills';
import type { Inline } from './inline';
import { explain, showProgress, warn } from './say';
import { type Applied, REFINE_SUGGESTION } from './wire';

const SHOW = 'Show It';

/** The partner has something better than a fill just made. The user decides whether to look at it. */
export async function offerRefined(client: LanguageClient, fills: Fills, { uri, range }: { uri: string; range: Range }): Promise<void> {
  const document = vscode.Uri.parse(uri);
  const line = range.start.line + 1;
  if ((await vscode.window.showInformationMessage(`The partner has something better for line ${line}.`, SHOW)) === SHOW) {
    await fills.run(client, await vscode.window.showTextDocument(document), { command: 'infill-ls.refine', range });
  }
}

/**
 * Has the suggestion `id` on screen refined: it stays where it is, and can be taken, until the server says that there is
 * a better one. Says why none came, unless the user has taken or left the suggestion meanwhile.
 */
export async function refineSuggestion(client: LanguageClient, inline: Inline, document: vscode.TextDocument, id: string): Promise<void> {
  const uri = client.code2ProtocolConverter.asUri(document.uri);
  const answer = client.sendRequest(ExecuteCommandRequest.type, { command: REFINE_SUGGESTION, arguments: [id, uri] });
  showProgress('infill-ls: asking the partner', answer);
  try {
    const applied = (await answer) as Applied | null;
    if (inline.onScreen(document) === id) {
      explain(applied);
    }
  } catch (error) {
    warn(error);
  }
}
