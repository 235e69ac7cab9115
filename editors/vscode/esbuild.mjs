// Bundles the extension into dist/extension.cjs; with --tests, each unit test into dist/test/.
import { build } from 'esbuild';
import { readdirSync } from 'node:fs';

const common = { bundle: true, platform: 'node', format: 'cjs', target: 'node20', logLevel: 'warning' };

if (process.argv.includes('--tests')) {
  const tests = readdirSync('test').filter((name) => name.endsWith('.test.ts'));
  await build({
    ...common,
    entryPoints: tests.map((name) => `test/${name}`),
    outdir: 'dist/test',
    outExtension: { '.js': '.cjs' },
    sourcemap: 'inline',
  });
} else {
  await build({
    ...common,
    entryPoints: ['src/extension.ts'],
    outfile: 'dist/extension.cjs',
    external: ['vscode'],
    minify: true,
    legalComments: 'eof',
  });
}
