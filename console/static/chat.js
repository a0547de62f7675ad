// The live part of a conversation: turns as the log has them replace those of the page; text that is being written is shown until then.
import { send, tell } from './console.js'

// element makes what a fragment of HTML describes, without running anything in it.
function element(html) {
  const t = document.createElement('template')
  t.innerHTML = html
  return t.content.firstElementChild
}

// keep copies what the user has typed or focused within an element that is replaced.
function keep(old, fresh) {
  for (const field of old.querySelectorAll('textarea, input:not([type=hidden])')) {
    const same = fresh.querySelector(`[name="${CSS.escape(field.name)}"]`)
    if (!same) continue
    same.value = field.value
    if (field === document.activeElement) return () => { same.focus(); same.setSelectionRange?.(field.selectionStart, field.selectionEnd) }
  }
  if (old.contains(document.activeElement)) { // such as a button that is gone: the keyboard goes on from here
    const name = document.activeElement.className
    return () => (fresh.querySelector('.' + (name.split(' ').find(c => c.startsWith('stop')) ?? 'none')) ?? fresh.querySelector('form button') ?? document.querySelector('[data-compose] textarea'))?.focus({ preventScroll: true })
  }
  return () => {}
}

export function talk(turns) {
  if (!turns) return
  const scroll = turns.closest('.talk')
  const attempts = new Map()
  const atEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80
  const follow = was => { if (was) scroll.scrollTop = scroll.scrollHeight }
  let end = true // also when the window becomes smaller, such as by the keyboard of a phone
  scroll.addEventListener('scroll', () => { end = atEnd() })
  addEventListener('resize', () => follow(end))
  const drafts = () => turns.querySelectorAll('.is-open .draft')
  const missed = new WeakSet(drafts()) // whose beginning was perhaps written before the page was there
  let source = null

  function turn({ id, html }) {
    const end = atEnd(), old = document.getElementById(id), fresh = element(html)
    turns.querySelector('.empty')?.remove()
    if (old) {
      const refocus = keep(old, fresh)
      const draft = old.querySelector('.draft:not([hidden])'), next = fresh.querySelector('.draft')
      if (draft && next) next.replaceWith(draft) // it goes on being written
      for (const said of old.querySelectorAll('.progress')) {
        const same = fresh.querySelector('#' + CSS.escape(said.parentElement.id) + ':has(form) .progress')
        if (same) same.textContent = said.textContent
      }
      for (const row of old.querySelectorAll('.task:has(.is-working)')) works(fresh.querySelector('#' + CSS.escape(row.id)))
      old.replaceWith(fresh)
      refocus()
      if (!document.querySelector('#history [aria-current]')) history_() // it is in the log now
    } else {
      turns.append(fresh)
      history_()
    }
    follow(end || !old)
  }
  function delta({ turn, attempt, text }) {
    const to = document.getElementById('t-' + turn)?.querySelector('.draft')
    if (!to) return
    const end = atEnd()
    if (attempts.get(turn) !== attempt) { to.textContent = missed.has(to) ? '… ' : ''; attempts.set(turn, attempt) }
    to.hidden = false
    if (to.lastChild) to.lastChild.appendData(text)
    else to.append(text)
    follow(end)
  }
  function progress({ task, text }) {
    const row = document.getElementById('k-' + task), to = row?.querySelector('.progress')
    if (to) to.textContent = text
    works(row)
  }
  // works says of a task that was given out that its agent is working on it, which only the agent says.
  function works(row) {
    const state = row?.querySelector('.is-submitted')
    if (!state) return
    state.className = 'state is-working'
    state.textContent = 'working'
  }

  function offline(is) {
    const shown = document.querySelector('.offline')
    if (is && !shown) {
      const p = document.createElement('p')
      p.className = 'offline'
      p.setAttribute('role', 'status')
      p.textContent = 'The connection is lost; it is tried again, and nothing is lost.'
      scroll.prepend(p)
      for (const draft of drafts()) draft.lastChild?.appendData(' … ') // what is written meanwhile comes with the answer
    } else if (!is) shown?.remove()
  }

  // over says that this person is not logged in any more. The page stays as it is, with what they have typed.
  function over() {
    source.close()
    offline(true)
    const bar = document.querySelector('.offline'), a = document.createElement('a')
    a.href = '/login?' + new URLSearchParams({ to: location.pathname + location.search })
    a.textContent = 'Log in again'
    bar.replaceChildren('You are not logged in any more: this page stays as it is now. ', a)
  }
  const out = async () => (await fetch(location.href, { method: 'HEAD' }).catch(() => null))?.status === 401
  document.addEventListener('left', async () => { if (await out()) over() }) // as another tab says
  async function closed() {
    if (await out()) over()
    else setTimeout(() => location.reload(), 3000)
  }

  function listen() {
    source = new EventSource(turns.dataset.events)
    source.addEventListener('open', () => offline(false))
    source.addEventListener('error', () => {
      offline(true)
      if (source.readyState === EventSource.CLOSED) closed()
    })
    const on = (name, f) => source.addEventListener(name, e => f(JSON.parse(e.data)))
    on('turn', turn)
    on('delta', delta)
    on('progress', progress)
    on('notice', ({ text, gone }) => { tell(text); if (gone) document.getElementById(gone)?.remove() })
    on('resync', () => location.reload())
    on('over', over)
  }

  const query = document.querySelector('.list input[name=q]')
  let waits
  async function history_() {
    const at = location.pathname.split('/')[2] ?? ''
    const answer = await fetch('/conversations?' + new URLSearchParams({ q: query?.value ?? '', at: decodeURIComponent(at) }), { headers: { Accept: 'text/html' } }).catch(() => null)
    if (answer?.ok && !answer.redirected) document.getElementById('history').innerHTML = await answer.text()
  }
  query?.addEventListener('input', () => { clearTimeout(waits); waits = setTimeout(history_, 150) })

  const form = document.querySelector('[data-compose]')
  if (form) {
    const text = form.elements.text
    text.addEventListener('keydown', e => {
      if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) { e.preventDefault(); form.requestSubmit() }
    })
    text.addEventListener('beforeinput', e => { // a message begins with no empty line
      if (e.inputType === 'insertLineBreak' && !text.value.trim()) e.preventDefault()
    })
    form.addEventListener('submit', async e => {
      e.preventDefault()
      const body = new FormData(form)
      if (!text.value.trim() && !form.elements.file.value) return
      if (!form.elements.file.value) body.delete('file')
      const said = text.value.replace(/^\n+|\s+$/g, '')
      body.set('text', said)
      form.reset() // at once: what is typed from now on is the next message
      form.elements.message.value = Array.from(crypto.getRandomValues(new Uint8Array(16)), b => b.toString(16).padStart(2, '0')).join('')
      try {
        if (form.dataset.go) {
          history.replaceState(null, '', form.dataset.go)
          delete form.dataset.go
        }
        await send(form, body)
      } catch (err) {
        tell(err.message)
        if (!text.value) text.value = said
      }
      text.focus()
    })
  }
  document.addEventListener('turn', e => { if (!document.getElementById(e.detail.id)) turn(e.detail) })
  listen()
  if (matchMedia('(pointer: fine)').matches && !location.hash) document.querySelector('[data-compose] textarea')?.focus({ preventScroll: true })
  scroll.scrollTop = scroll.scrollHeight
}
