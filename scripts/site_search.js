// Searches the pages for the words in the address of search.html, within that page itself: a browser lets no page of a folder (file://)
// start a worker or read a file, as the search of mkdocs does. site_hooks.py puts this in its place.
(function () {
  const place = document.getElementById("mkdocs-search-results");
  const box = document.getElementById("mkdocs-search-query");
  if (!place || !box) return;

  const add = (parent, tag, text, attributes = {}) => {
    const element = Object.assign(document.createElement(tag), {textContent: text}, attributes);
    parent.append(element);
    return element;
  };
  const script = file => new Promise((loaded, failed) =>
    add(document.head, "script", "", {src: "search/" + file, onload: loaded, onerror: failed}));

  // Text around the first of the words.
  const excerpt = (text, words) => {
    const lower = text.toLowerCase();
    const places = words.map(word => lower.indexOf(word)).filter(at => at >= 0);
    const begin = Math.max(0, Math.min(...places, text.length) - 80);
    return (begin > 0 ? "… " : "") + text.slice(begin, begin + 240) + (begin + 240 < text.length ? " …" : "");
  };

  const ready = Promise.all([script("lunr.js"), script("search_index.js")]).then(() => {
    const docs = new Map(siteIndex.docs.map(doc => [doc.location, doc]));
    const index = lunr(function () {
      this.ref("location");
      this.field("title", {boost: 5});
      this.field("text");
      siteIndex.docs.forEach(doc => this.add(doc));
    });
    return {docs, index};
  });

  const show = ({docs, index}) => {
    const words = box.value.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(Boolean);
    place.replaceChildren();
    // As the words are, and as beginnings of others.
    const found = index.query(query => words.forEach(word => {
      query.term(word, {boost: 10, usePipeline: true});
      query.term(word, {wildcard: lunr.Query.wildcard.TRAILING, usePipeline: false});
    }));
    // Where all words stand comes before where some do.
    const count = hit => words.filter(word => (docs.get(hit.ref).title + " " + docs.get(hit.ref).text).toLowerCase().includes(word)).length;
    const best = found.map(hit => ({...hit, count: count(hit)})).sort((a, b) => b.count - a.count || b.score - a.score).slice(0, 50);
    for (const {ref} of best) {
      const doc = docs.get(ref);
      const page = docs.get(ref.split("#")[0]);
      const article = add(place, "article", "");
      add(add(article, "h3", ""), "a", page && page.title !== doc.title ? page.title + ": " + doc.title : doc.title, {href: ref});
      add(article, "p", excerpt(doc.text, words));
    }
    if (best.length === 0) add(place, "p", words.length ? "No page has these words." : "");
  };

  box.value = new URLSearchParams(location.search).get("q") || "";
  const search = () => ready.then(show).catch(() => place.replaceChildren("The files of this site's search are not there."));
  box.addEventListener("input", search);
  box.form?.addEventListener("submit", event => event.preventDefault());
  search();
})();
