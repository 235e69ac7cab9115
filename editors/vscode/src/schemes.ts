/** Which documents get fills, by the scheme of their URI, and why the others do not. Knows no VS Code. */

/** Files on disk, new ones, and the cells of notebooks. */
export const SERVED = ['file', 'untitled', 'vscode-notebook-cell'];

const REASONS: readonly (readonly [RegExp, string])[] = [
  [/^search-editor$/, 'the results of a search are a copy of what the files hold'],
  [/^output|^log$/, 'the output of a program cannot be edited'],
  [/^git|^(hg|svn|review|pr)$/, 'this version comes from source control and cannot be edited'],
  [/^vscode-userdata$/, 'VS Code keeps its own settings, which may hold secrets'],
  [/^(vscode-)?interactive/, 'the interactive window is a console, not a file'],
  [/^vscode-notebook/, 'the outputs and the metadata of a notebook are not code'],
  [/^comment$/, 'a comment on code is not code'],
  [/^vscode-scm$/, 'a commit message is not code'],
  [/chat/, 'a chat is not a file'],
  [/^debug$/, 'this text comes from a debugger, not from a file'],
  [/^(vscode|walkThrough.*|vscode-settings)$/, 'VS Code wrote this text, which cannot be edited'],
];

/** Why a document whose URI has `scheme` gets no fills; undefined if it can get some. */
export function offByScheme(scheme: string): string | undefined {
  if (SERVED.includes(scheme)) {
    return undefined;
  }
  const reason = REASONS.find(([pattern]) => pattern.test(scheme))?.[1];
  return reason ?? `it is not a file on this machine (its address begins with ${scheme}:)`;
}
