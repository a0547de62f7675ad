// What all pages share: forms that do not leave the page, clocks, keys, the palette. Pages work without it.
import { talk } from './chat.js'
import { palette } from './palette.js'

const root = document.documentElement
root.classList.add('live')

// send posts a form. The server answers 202 when there is nothing more to say, and otherwise with a text.
export async function send(form, body) {
  let answer
  try {
    answer = await fetch(form.action, { method: 'POST', body, headers: { 'X-Fetch': '1' } })
  } catch {
    throw new Error('Cortex cannot be reached: nothing was sent.')
  }
  if (answer.redirected && new URL(answer.url).pathname === '/login') { location.reload(); return }
  const text = (await answer.text()).trim()
  if (!answer.ok) throw new Error(text.slice(0, 1000))
  if (answer.headers.get('content-type') === 'application/json') document.dispatchEvent(new CustomEvent('turn', { detail: JSON.parse(text) }))
}

// tell shows a line to the user.
export function tell(text, failed = true) {
  const to = document.getElementById('notices')
  if (!to) { alert(text); return }
  const p = document.createElement('p')
  p.className = failed ? 'notice is-failed' : 'notice'
  p.textContent = text
  to.append(p)
  while (to.children.length > 3) to.firstChild.remove()
}

document.addEventListener('submit', async e => {
  const form = e.target
  if (!form.matches('[data-fetch]')) return
  e.preventDefault()
  const body = new URLSearchParams(new FormData(form, e.submitter))
  if (form.ariaBusy) return
  form.ariaBusy = 'true' // a button that is disabled would lose the focus
  try {
    await send(form, body)
  } catch (err) {
    form.ariaBusy = null
    tell(err.message)
  }
})

// Clocks count while something is under way.
function clock(ms) {
  const s = Math.max(0, ms) / 1000
  if (s < 60) return s.toFixed(s < 10 ? 1 : 0) + ' s'
  if (s < 3600) return Math.floor(s / 60) + ' min ' + String(Math.floor(s % 60)).padStart(2, '0') + ' s'
  return Math.floor(s / 3600) + ' h ' + String(Math.floor(s / 60 % 60)).padStart(2, '0') + ' min'
}
setInterval(() => {
  if (document.hidden) return
  for (const t of document.querySelectorAll('time.clock')) t.textContent = clock(Date.now() - Date.parse(t.dateTime))
}, 500)

document.addEventListener('click', e => {
  const button = e.target.closest('[data-copy]')
  if (!button) return
  navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent.trim())
  button.textContent = 'Copied'
})

// Keys. A single letter is one only outside of fields.
let went = 0
document.addEventListener('keydown', e => {
  const field = e.target.closest('input, textarea, select, [contenteditable]')
  if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === 'k') { e.preventDefault(); palette(); return }
  if (e.key === 'Escape' && field && !field.closest('dialog')) { field.blur(); return }
  if (field || e.ctrlKey || e.metaKey || e.altKey || e.target.closest('dialog')) return
  if (Date.now() - went < 1500) {
    went = 0
    const to = document.querySelector(`.side nav a[data-key="${CSS.escape(e.key)}"]`)
    if (to) { e.preventDefault(); to.click() }
    return
  }
  if (e.key === 'g') went = Date.now()
  if (e.key === '?') document.getElementById('keys')?.showModal()
  if (e.key === '/') {
    const search = document.querySelector('[data-slash]')
    if (search) { e.preventDefault(); search.closest('details')?.setAttribute('open', ''); search.focus() }
  }
})
document.getElementById('open-palette')?.addEventListener('click', palette)

document.querySelector('.side nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })

// On a narrow window, the list of conversations is folded.
const fold = document.querySelector('.fold'), narrow = matchMedia('(max-width: 56rem)')
if (fold && narrow.matches) fold.open = false
if (fold) narrow.addEventListener('change', () => { fold.open = !narrow.matches })

talk(document.getElementById('turns'))
for (const el of document.querySelectorAll('[data-reload]')) import('./reload.js').then(m => m.reload(el))
if (document.querySelector('#activity[data-events]')) import('./activity.js').then(m => m.watch(document.getElementById('activity')))

// The tabs of a browser share who is logged in: what another one still shows of somebody else would be answered in this person's name.
const who = document.body.dataset.who
if (who !== undefined) {
  const tabs = new BroadcastChannel('cortex')
  tabs.addEventListener('message', ({ data }) => {
    if (data === who) return
    // Not reload, which would send the form again whose answer this page may be: the address leads whoever is logged in on.
    if (data || !document.getElementById('turns')) location.replace(location.pathname + location.search)
    else document.dispatchEvent(new Event('left'))
  })
  tabs.postMessage(who)
}
