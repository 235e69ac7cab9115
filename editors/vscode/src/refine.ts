/** Asks the partner, a larger model on a server, about the visible suggestion, a selection or a recent fill. */
import * as vscode from 'vscode';
import { ExecuteCommandRequest, type LanguageClient, type Range } from 'vscode-languageclient/node';
import type { Fills } from './fills';
import type { Inline } from './inline';
import { explain, showProgress, warn } from './say';
import { Standing } from './standing';
import { type Applied, REFINE_SUGGESTION } from './wire';

const SHOW = 'Show It';

/**
 * The partner has improved a recent fill. The user decides later whether to look at it, so nothing happens if the file
 * has changed by then. The server learns which version is meant, and checks again.
 */
export async function offerRefined(client: LanguageClient, fills: Fills, { uri, range }: { uri: string; range: Range }): Promise<void> {
  const name = vscode.Uri.parse(uri).toString();
  const standing = new Standing(vscode.workspace.textDocuments.find((document) => document.uri.toString() === name));
  try {
    const offer = `The partner has something better for line ${range.start.line + 1}.`;
    if ((await vscode.window.showInformationMessage(offer, SHOW)) !== SHOW) {
      return;
    }
    const document = standing.now();
    if (typeof document === 'string') {
      warn(`the file has ${document === 'changed' ? 'changed' : 'been closed'} since; put the cursor into the fill and press Alt+I P`);
      return;
    }
    const { version } = document;
    const editor = await vscode.window.showTextDocument(document);
    await fills.run(client, editor, { command: 'infill-ls.refine', range, version });
  } catch (error) {
    warn(error);
  }
}

/**
 * Has the visible suggestion `id` refined: it stays, and can be accepted, until the server has a better one. Says why
 * none came, unless the user has accepted or left the suggestion meanwhile.
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
