/* Search works on pages that are read from the disk, too: there a browser starts no workers. What
   the search would do in one is done in a hidden frame, which has globals of its own as well. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }));
      this.started = this.load(url);
    }

    load(url) {
      const script = this.inside.document.createElement("script");
      const loaded = new Promise((done, failed) => Object.assign(script, { onload: done, onerror: failed }));
      script.src = url;
      this.inside.document.body.append(script);
      return loaded;
    }

    postMessage(data) {
      this.started.then(() =>
        this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }
  };
}
