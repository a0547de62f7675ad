// The live part of the page of what happens: rows come on top as the log has them. While the page is paused, as many wait as fit on it.
import { tell } from './console.js'

const most = 300 // rows on the page, and rows that wait

export function watch(box) {
  const list = box.querySelector('ol'), pause = document.getElementById('pause')
  let paused = box.hasAttribute('data-paused'), other = pause.href, waiting = [], lost = 0

  function show(rows) {
    if (!rows.length) return
    box.querySelector('.empty')?.remove()
    list.prepend(...rows.toReversed())
    while (list.children.length > most) list.lastElementChild.remove()
  }
  function name() {
    const n = waiting.length + lost
    pause.textContent = paused ? 'Go on' + (n ? ` (${n} new)` : '') : 'Pause'
  }
  pause.addEventListener('click', e => {
    e.preventDefault()
    paused = !paused
    const here = location.href
    history.replaceState(null, '', other)
    pause.href = other = here
    show(waiting)
    waiting = []
    lost = 0
    name()
  })

  const source = new EventSource(box.dataset.events)
  source.addEventListener('open', () => document.querySelector('.offline')?.remove())
  source.addEventListener('error', () => {
    if (!document.querySelector('.offline')) {
      const p = document.createElement('p')
      p.className = 'offline'
      p.setAttribute('role', 'status')
      p.textContent = 'The connection is lost; it is tried again, and nothing is lost.'
      box.prepend(p)
    }
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 3000) // such as when one has to log in again
  })
  const on = (event, f) => source.addEventListener(event, e => f(JSON.parse(e.data)))
  on('rows', ({ html }) => {
    const t = document.createElement('template')
    t.innerHTML = html
    const rows = Array.from(t.content.children)
    if (!paused) { show(rows); return }
    waiting.push(...rows)
    if (waiting.length > most) lost += waiting.splice(0, waiting.length - most).length // no more than that fit the page
    name()
  })
  on('gone', ({ versions }) => {
    const gone = new Set(versions.map(String)), left = li => !gone.has(li.dataset.v)
    waiting = waiting.filter(left)
    for (const li of Array.from(list.children)) if (!left(li)) li.remove()
    name()
  })
  on('notice', ({ text }) => tell(text))
  on('resync', () => location.reload())
}
