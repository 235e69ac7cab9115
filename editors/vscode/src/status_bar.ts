/** The item in the status bar, and its menu. */
import * as vscode from 'vscode';
import type { Look } from './status';

const BACKGROUNDS = { plain: undefined, warning: 'statusBarItem.warningBackground', error: 'statusBarItem.errorBackground' };
const MENU = 'infill.showStatus';

export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem('infill.status', vscode.StatusBarAlignment.Right, 100);
  private look: Look | undefined;

  constructor() {
    this.item.name = 'infill-ls';
    this.item.show();
  }

  show(look: Look): void {
    this.look = look;
    const background = BACKGROUNDS[look.level];
    this.item.text = look.text;
    this.item.tooltip = look.tooltip;
    this.item.command = look.command ?? MENU;
    this.item.backgroundColor = background === undefined ? undefined : new vscode.ThemeColor(background);
  }

  /** The reason, and the commands that help. */
  async offer(language: string | undefined): Promise<void> {
    const entries = [
      ...(this.look?.installs === true ? [{ label: '$(cloud-download) Install the server', command: 'infill.install' }] : []),
      { label: '$(refresh) Restart', command: 'infill.restart' },
      { label: '$(sparkle) The best model for this machine', command: 'infill.chooseModel' },
      { label: '$(bell-slash) Snooze…', command: 'infill.snooze' },
      { label: '$(output) Show log', command: 'infill.showLog' },
      ...(language === undefined ? [] : [{ label: `$(circle-slash) Turn on or off for ${language}`, command: 'infill.toggleLanguage' }]),
      { label: '$(gear) Settings', command: 'workbench.action.openSettings', argument: 'infill.' },
    ];
    const title = this.look?.tooltip.split('\n')[0] ?? 'infill-ls';
    const choice = await vscode.window.showQuickPick(entries, { title, placeHolder: 'What to do' });
    if (choice !== undefined) {
      await vscode.commands.executeCommand(choice.command, ...('argument' in choice ? [choice.argument] : []));
    }
  }

  dispose(): void {
    this.item.dispose();
  }
}
