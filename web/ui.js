// Shows the status of all jobs, and looks again whenever the stream of events says something.
'use strict';

const at = (id) => document.getElementById(id);
let stream = null;

function row(words, cell) {
  const line = at('jobs').insertRow();
  for (const word of words) {
    const one = document.createElement(cell);
    one.textContent = word;
    line.append(one);
  }
}

// The kinds of events, as docs/http.md has them: a stream gives named ones to nobody who does not ask by name.
const KINDS = ['joined', 'warm', 'generation', 'active', 'lost', 'back', 'draining', 'gone', 'refused', 'takeover',
  'finished', 'ended', 'restarted', 'resized', 'drained', 'leftout', 'metrics', 'saved', 'healed', 'gap'];
let due = false;

// Many events in a row are one reason to look.
function soon() {
  if (!due) {
    due = true;
    setTimeout(() => { due = false; show(); }, 300);
  }
}

function follow() {
  stream = new EventSource('/v1/events?follow=1');
  for (const kind of KINDS) {
    stream.addEventListener(kind, soon);
  }
}

async function show() {
  const answer = await fetch('/v1/jobs');
  at('enter').hidden = answer.ok;
  at('leave').hidden = !answer.ok;
  at('jobs').replaceChildren();
  if (!answer.ok) {
    return;
  }
  const said = await answer.json();
  row(['job', 'state', 'generation', 'step'], 'th');
  for (const job of said.jobs) {
    row([job.job, job.state, job.generation, job.step], 'td');
  }
  if (stream === null) {
    follow();
  }
}

at('enter').onsubmit = async (event) => {
  event.preventDefault();
  const answer = await fetch('/v1/session', {
    method: 'POST', headers: {Authorization: 'Bearer ' + at('token').value.trim()},
  });
  at('token').value = '';
  at('note').textContent = answer.ok ? '' : 'The token is wrong.';
  show();
};

at('leave').onclick = async () => {
  stream?.close();
  stream = null;
  await fetch('/v1/session', {method: 'DELETE'});
  show();
};

show();
