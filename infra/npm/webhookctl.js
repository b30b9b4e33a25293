#!/usr/bin/env node
// Runs the webhookctl of this machine, which is in an optional dependency of this package.
'use strict';
const { spawn } = require('node:child_process');
const { constants } = require('node:os');
const { optionalDependencies } = require('./package.json');

const stop = (message) => {
  console.error(`webhookctl: ${message}`);
  process.exit(1);
};
const machine = `${process.platform}-${process.arch}`;
const name = Object.keys(optionalDependencies).find((name) => name.endsWith(`/${machine}`));
if (!name) stop(`there is no program for ${machine}`);
let program;
try {
  program = require.resolve(`${name}/bin/webhookctl`);
} catch {
  stop(`${name} is not installed; install again without --omit=optional`);
}
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
// A terminal sends Ctrl-C to the program itself.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => child.kill('SIGTERM'));
child.on('error', (error) => stop(`${program} cannot be run: ${error.code}`));
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
