// Talking to the server: a stream of events, and messages. The token of the address goes into a header, which
// EventSource cannot send; hence fetch.

const token = location.pathname.split("/")[1];
const headers = { "X-Tabgnm-Token": token };
const RETRY_MS = 1000;

export async function post(path, message) {
  const options = { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(message) };
  const answer = await fetch(`/api/${path}`, options).catch(() => null); // the stream reports a server that has ended
  if (answer && !answer.ok) throw new Error((await answer.json()).error);
}

// Calls handlers[event](content) for all events as long as the page is visible: a page that nobody sees closes its
// stream, and the server stops training for it.
export async function listen(handlers, onState) {
  for (;;) {
    await visible();
    const stop = new AbortController();
    const onHidden = () => document.hidden && stop.abort();
    document.addEventListener("visibilitychange", onHidden);
    try {
      const answer = await fetch("/api/events", { headers, signal: stop.signal });
      if (!answer.ok) {
        onState((await answer.json()).error);
        return;
      }
      onState("");
      await read(answer.body.getReader(), handlers);
    } catch (error) {
      if (error.name !== "AbortError" && !(error instanceof TypeError)) throw error;
    } finally {
      document.removeEventListener("visibilitychange", onHidden);
    }
    if (!document.hidden) {
      onState("The server has stopped. Start it again, and open the address that it prints.");
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
}

function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => document.addEventListener("visibilitychange", () => document.hidden || done()));
}

async function read(reader, handlers) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const match = /^event: (\w+)\ndata: (.*)$/.exec(event);
      if (match) handlers[match[1]](JSON.parse(match[2]));
    }
  }
}
