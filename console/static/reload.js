// A part of a page that changes by itself is fetched again, and replaced when it is another one.
export function reload(el) {
  const id = el.id, every = Number(el.dataset.reload)
  const again = async () => {
    const now = document.getElementById(id)
    if (!now) return
    if (!document.hidden && !now.contains(document.activeElement)) {
      const answer = await fetch(location.href, { headers: { Accept: 'text/html' } }).catch(() => null)
      if (answer?.redirected && new URL(answer.url).pathname === '/login') { location.reload(); return }
      if (answer?.ok) {
        const doc = new DOMParser().parseFromString(await answer.text(), 'text/html')
        const fresh = doc.getElementById(id)
        if (fresh && !fresh.dataset.reload) { location.reload(); return } // it is over: the whole page has more to say
        if (fresh && fresh.innerHTML !== now.innerHTML) now.replaceWith(fresh)
      }
    }
    setTimeout(again, every)
  }
  setTimeout(again, every)
}
