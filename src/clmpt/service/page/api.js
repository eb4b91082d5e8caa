// Requests to the service that this page came from.

import { $ } from "./dom.js";

export class Refused extends Error {
  constructor(status, found) {
    super(found.error ?? `The service answered ${status}.`);
    this.status = status;
    this.position = found.position;
    this.near = found.near ?? [];
  }
}

const TOKEN = "clmpt-token";
let asking = null; // the dialog for a token, if it is open

function token() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = $("token");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(TOKEN, $("token-text").value);
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

function address(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return query ? `${path}?${query}` : path;
}

async function reply(path, parameters, signal, accept) {
  const sent = token();
  const headers = { Accept: accept, ...(sent ? { Authorization: `Bearer ${sent}` } : {}) };
  let found;
  try {
    found = await fetch(address(path, parameters), { headers, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { error: "The service does not answer. Is it still running?" });
  }
  if (found.status === 401) {
    await askForToken();
    return reply(path, parameters, signal, accept);
  }
  return found;
}

export async function get(path, parameters = {}, signal = undefined, accept = "application/json") {
  const found = await reply(path, parameters, signal, accept);
  const value = await found.json().catch(() => ({}));
  if (!found.ok) throw new Refused(found.status, value);
  return value;
}

// Calls of one kind where only the newest counts: each cancels the one before.
export class Latest {
  #controller = null;

  async run(work) {
    this.#controller?.abort();
    const own = new AbortController();
    this.#controller = own;
    try {
      const found = await work(own.signal);
      return own.signal.aborted ? null : found;
    } catch (error) {
      if (own.signal.aborted || error.name === "AbortError") return null;
      throw error;
    }
  }

  cancel() {
    this.#controller?.abort();
  }
}

export function later(milliseconds, work) {
  let timer = 0;
  const soon = (...words) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...words), milliseconds);
  };
  soon.cancel = () => clearTimeout(timer);
  return soon;
}
