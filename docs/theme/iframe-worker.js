// Browsers do not start workers in pages that are opened from a disk, and the search of the site runs in one. In such pages
// this file replaces workers by hidden frames, which load the same script and exchange the same messages.
"use strict";

if (location.protocol === "file:") {
  const load = (page, address) =>
    new Promise((resolve, reject) => {
      const script = page.createElement("script");
      script.src = address;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`${address} cannot be loaded`));
      page.body.append(script);
    });

  // The script of the search looks for this name, to find out that it runs in a frame.
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html><title>worker</title><body></body>";
      this.ready = new Promise((resolve) => {
        this.frame.onload = resolve;
      }).then(() => {
        const inside = this.frame.contentWindow;
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        inside.importScripts = async (...addresses) => {
          for (const own of addresses) await load(inside.document, own);
        };
        return load(inside.document, new URL(address, location.href).href);
      });
      document.body.append(this.frame);
    }

    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
