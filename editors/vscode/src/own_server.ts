/** The server that the extension installs for itself, from the wheel inside it, in a folder that nothing else uses. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as path from 'node:path';

const WINDOWS = process.platform === 'win32';
const PYTHONS = WINDOWS
  ? [['py', '-3.13'], ['py', '-3.12'], ['py', '-3.11'], ['py', '-3.14'], ['python']]
  : [['python3.13'], ['python3.12'], ['python3.11'], ['python3.14'], ['python3']];
const FITS = 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))';
/** Variables that would lead pip or Python to another environment. */
const ELSEWHERE = ['PIP_TARGET', 'PIP_PREFIX', 'PIP_ROOT', 'PIP_USER', 'PYTHONPATH', 'PYTHONHOME', 'VIRTUAL_ENV', 'UV_TARGET', 'UV_PREFIX', 'UV_SYSTEM_PYTHON'];
/** The window that installs; its process must be alive. */
const OWNER = 'installing';
/** In front of the process of a window that runs the server of a folder, in the name of a file there. */
const USED_BY = 'used-by-';
/** Exists once everything is installed. */
const COMPLETE = 'complete';

const NO_PYTHON = 'there is no Python 3.11 to 3.14 with its module venv (Debian and Ubuntu: python3-venv), and no uv, on PATH. Install one of them, then try again.';

/** Stopped by the user, who needs no explanation. */
export class Cancelled extends Error {}

/** What `install` tells, and asks. */
export interface Watcher {
  /** A line of a program's output, or a step. */
  line(text: string): void;
  onCancel(stop: () => void): void;
}

/** The folder for its servers. On Windows not the extension's, in AppData: paths there may have 260 characters, and the Store's Python writes elsewhere. */
export function serversFolder(windows: boolean, home: string, storage: string): string {
  return windows ? path.win32.join(home, '.infill-ls-vscode') : storage;
}

export class OwnServer {
  private hash: string | undefined;

  /** `storage`: a folder of the extension's own on this machine. `wheels`: the folder with the one wheel. */
  constructor(private readonly storage: string, private readonly wheels: string) {}

  /** The installed program: that of this extension, otherwise of an earlier one; undefined if there is none whose Python is still there. */
  program(): string | undefined {
    const installed = this.folders().filter((folder) => fs.existsSync(path.join(folder, COMPLETE)) && fs.existsSync(pythonIn(folder)));
    const folder = installed.find((one) => one === this.folder()) ?? installed[0];
    return folder === undefined ? undefined : programIn(folder);
  }

  /** A folder with the installed program and nothing else, for the PATH of terminals. */
  async commandFolder(): Promise<string | undefined> {
    const program = this.program();
    return program === undefined ? undefined : alone(program).catch(() => undefined);
  }

  /** Whether `program` belongs to an earlier extension. */
  isOutdated(): boolean {
    const program = this.program();
    return program !== undefined && program !== programIn(this.folder());
  }

  /** Keeps the installed program from being removed while this window is open. */
  use(): void {
    const program = this.program();
    const folder = this.folders().find((one) => program === programIn(one));
    if (folder !== undefined) {
      void markUsed(folder).catch(() => undefined);
    }
  }

  /** Removes what earlier extensions installed and no window runs, once this one's server is there. */
  tidy(): void {
    if (this.program() === undefined || this.isOutdated()) {
      return;
    }
    for (const folder of this.folders().filter((one) => one !== this.folder())) {
      void removeUnused(folder).catch(() => undefined); // Windows keeps what runs
    }
  }

  /** Installs the wheel. Throws `Cancelled`, or an error that says what to do. */
  async install(watcher: Watcher): Promise<void> {
    const folder = this.folder();
    claim(folder);
    const runs = new Runs(watcher);
    try {
      await this.installInto(folder, runs, watcher);
      fs.writeFileSync(path.join(folder, COMPLETE), '');
      fs.rmSync(path.join(folder, OWNER));
    } catch (error) {
      fs.rmSync(folder, { recursive: true, force: true, maxRetries: 10 }); // Windows keeps what a program has just left
      throw runs.cancelled ? new Cancelled() : error;
    }
  }

  private async installInto(folder: string, runs: Runs, watcher: Watcher): Promise<void> {
    const environment = path.join(folder, 'env');
    const python = pythonIn(folder);
    watcher.line('making a Python environment');
    let uv = (await works('uv', ['--version'])) ? 'uv' : undefined;
    const base = uv === undefined ? await findPython() : undefined;
    if (uv !== undefined) {
      await runs.run(uv, ['venv', '--python', '>=3.11,<3.15', environment]);
    } else if (base !== undefined) {
      await runs.run(base[0], [...base.slice(1), '-m', 'venv', environment]);
      uv = await runs.run(python, ['-m', 'pip', 'install', '--disable-pip-version-check', 'uv']).then(
        () => path.join(path.dirname(python), WINDOWS ? 'uv.exe' : 'uv'), () => undefined);
    } else {
      throw new Error(NO_PYTHON);
    }
    if (uv !== undefined && (await this.withUv(uv, python, runs))) {
      return;
    }
    watcher.line('installing with pip');
    if (base === undefined) { // an environment of uv's has no pip
      await runs.run(python, ['-m', 'ensurepip']).catch(() => undefined);
    }
    await runs.run(python, ['-m', 'pip', 'install', '--disable-pip-version-check', '--progress-bar', 'off', this.wheel()]);
  }

  /** Whether uv could install it. It chooses the torch for this machine's GPU, or the small one without CUDA. */
  private async withUv(uv: string, python: string, runs: Runs): Promise<boolean> {
    const words = ['pip', 'install', '--python', python, '--torch-backend', 'auto', this.wheel()];
    return runs.run(uv, words).then(() => true, (error: unknown) => {
      if (runs.cancelled) {
        throw error;
      }
      return false;
    });
  }

  private folder(): string {
    this.hash ??= createHash('sha256').update(fs.readFileSync(this.wheel())).digest('hex').slice(0, 12);
    return path.join(this.storage, `server-${this.hash}`);
  }

  private folders(): string[] {
    const names = fs.existsSync(this.storage) ? fs.readdirSync(this.storage) : [];
    return names.filter((name) => name.startsWith('server-')).map((name) => path.join(this.storage, name));
  }

  private wheel(): string {
    const name = fs.readdirSync(this.wheels).find((one) => one.endsWith('.whl'));
    if (name === undefined) {
      throw new Error(`the extension holds no server in ${this.wheels}; install the extension again`);
    }
    return path.join(this.wheels, name);
  }
}

function programIn(folder: string): string {
  return path.join(folder, 'env', WINDOWS ? 'Scripts/infill-ls.exe' : 'bin/infill-ls');
}

/** Where the program stands without the Python beside it. On Windows it is copied: links may be forbidden there. */
async function alone(program: string): Promise<string> {
  const folder = path.join(path.dirname(path.dirname(path.dirname(program))), 'bin');
  const target = path.join(folder, path.basename(program));
  if (!fs.existsSync(target)) {
    await fs.promises.mkdir(folder, { recursive: true });
    await (WINDOWS ? fs.promises.copyFile(program, target) : fs.promises.symlink(program, target));
  }
  return folder;
}

/** A link to the Python that the environment was made with. */
function pythonIn(folder: string): string {
  return path.join(folder, 'env', WINDOWS ? 'Scripts/python.exe' : 'bin/python');
}

/** Makes `folder`, anew after an installation that was interrupted. Throws if another window installs into it. */
function claim(folder: string): void {
  const owner = path.join(folder, OWNER);
  const pid = Number(fs.existsSync(owner) ? fs.readFileSync(owner, 'utf8') : 0);
  if (pid > 0 && pid !== process.pid && isAlive(pid)) {
    throw new Error('another window is installing it. Wait for that, then try again.');
  }
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(owner, String(process.pid));
}

/** Replaces the marks of windows that are closed by this one's. */
async function markUsed(folder: string): Promise<void> {
  const names = (await fs.promises.readdir(folder)).filter((name) => name.startsWith(USED_BY) && !isAlive(userOf(name)));
  await Promise.all(names.map(async (name) => fs.promises.rm(path.join(folder, name), { force: true })));
  await fs.promises.writeFile(path.join(folder, `${USED_BY}${process.pid}`), '');
}

function userOf(name: string): number {
  return Number(name.slice(USED_BY.length));
}

async function removeUnused(folder: string): Promise<void> {
  const names = await fs.promises.readdir(folder);
  if (!names.some((name) => name.startsWith(USED_BY) && isAlive(userOf(name)))) {
    await fs.promises.rm(folder, { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function works(program: string, words: string[]): Promise<boolean> {
  return new Promise((resolve) => execFile(program, words, { ...outside(), timeout: 20_000 }, (error) => resolve(error === null)));
}

/** The words that start it. */
async function findPython(): Promise<[string, ...string[]] | undefined> {
  for (const [program, ...words] of PYTHONS) {
    if (program !== undefined && (await works(program, [...words, '-c', FITS]))) {
      return [program, ...words];
    }
  }
  return undefined;
}

/** In the user's home: a workspace, which may be untrusted, may hold a venv.py, or settings for uv. */
function outside(): { cwd: string; env: NodeJS.ProcessEnv } {
  return { cwd: os.homedir(), env: ownEnvironment() };
}

/** uv takes pip's index, too, where it has none of its own. */
function ownEnvironment(): NodeJS.ProcessEnv {
  const index = process.env['PIP_INDEX_URL'];
  const uvs = index !== undefined && process.env['UV_INDEX_URL'] === undefined ? { UV_DEFAULT_INDEX: index } : {};
  return Object.fromEntries(Object.entries({ ...uvs, ...process.env }).filter(([name]) => !ELSEWHERE.includes(name)));
}

/** A line of a program's output, for a user: what pip says of its longest step is a list of packages. */
export function plain(line: string): string {
  if (/^(Installing collected packages|Attempting uninstall|Found existing|Uninstalling|Successfully uninstalled)/.test(line)) {
    return 'unpacking the packages';
  }
  return line.includes('Retrying (Retry') ? 'the package index does not answer; trying again' : line;
}

/** Why a program failed, by its output, and what to do. */
export function failureOf(program: string, output: string): string {
  if (/No space left on device|quota exceeded|not enough space on the disk/i.test(output)) {
    return 'the disk is full. Make room (1.3 GB, with CUDA 4.8 GB), then try again.';
  }
  if (/connection broken by|error sending request|confirming the ssl certificate/i.test(output)) {
    return 'the package index cannot be reached. Behind a proxy, set HTTPS_PROXY; with an index of your own, PIP_INDEX_URL. Then start VS Code again. Without internet, install a bundle (`make bundle`).';
  }
  return `${program} failed: ${output.trim().split(/[\r\n]+/).pop() ?? ''}`;
}

/** Programs run one after the other, each of which can be stopped with all of its children. */
class Runs {
  cancelled = false;
  private child: ChildProcess | undefined;

  constructor(private readonly watcher: Watcher) {
    watcher.onCancel(() => {
      this.cancelled = true;
      this.stop();
    });
  }

  /** Throws why the program failed, for a user. */
  async run(program: string, words: string[]): Promise<void> {
    if (this.cancelled) {
      throw new Cancelled();
    }
    const child = (this.child = spawn(program, words, { ...outside(), detached: !WINDOWS, windowsHide: true, stdio: ['ignore', 'pipe', 'pipe'] }));
    let output = '';
    const onOutput = (data: Buffer): void => {
      output += data.toString('utf8');
      for (const line of data.toString('utf8').split(/[\r\n]+/).filter((one) => one.trim() !== '')) {
        this.watcher.line(line.trim());
      }
    };
    child.stdout.on('data', onOutput);
    child.stderr.on('data', onOutput);
    await new Promise<void>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code) => (code === 0 ? resolve() : reject(new Error(failureOf(path.basename(program), output)))));
    });
  }

  private stop(): void {
    const pid = this.child?.pid;
    if (pid === undefined || this.child?.exitCode !== null) {
      return;
    }
    if (WINDOWS) {
      execFile('taskkill', ['/pid', String(pid), '/t', '/f'], () => undefined);
    } else {
      process.kill(-pid, 'SIGTERM');
    }
  }
}
