// The palette goes to a page, an agent or a conversation by some letters of its name.
let places = null

async function load() {
  const all = Array.from(document.querySelectorAll('.side nav a'), a => ({ name: a.textContent.trim(), kind: 'page', to: a.href }))
  const get = async (url, make) => {
    const answer = await fetch(url, { headers: { Accept: 'application/json' } }).catch(() => null)
    if (answer?.ok) for (const one of (await answer.json()).slice(0, 2000)) all.push(make(one))
  }
  await Promise.all([
    get('/agents', a => ({ name: a.id, kind: 'agent', to: '/agents/' + encodeURIComponent(a.id) })),
    get('/conversations', c => ({ name: c.title || c.contextId, kind: 'conversation', to: '/c/' + encodeURIComponent(c.contextId) })),
  ])
  return all
}

export async function palette() {
  const box = document.getElementById('palette')
  if (!box || box.open) return
  const input = box.querySelector('input'), list = box.querySelector('ul')
  let at = 0, found = []
  input.value = ''
  box.showModal()
  places = await load()
  const go = one => { if (one) location.href = one.to }
  const draw = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean)
    found = places.filter(p => words.every(w => p.name.toLowerCase().includes(w))).slice(0, 30)
    at = Math.max(0, Math.min(at, found.length - 1))
    list.replaceChildren(...found.map((p, i) => {
      const li = document.createElement('li'), name = document.createElement('b'), kind = document.createElement('span')
      li.role = 'option'
      li.id = 'place-' + i
      li.ariaSelected = String(i === at)
      name.textContent = p.name
      kind.textContent = p.kind
      li.append(name, kind)
      li.onclick = () => go(p)
      return li
    }))
    input.setAttribute('aria-activedescendant', found.length ? 'place-' + at : '')
    list.children[at]?.scrollIntoView({ block: 'nearest' })
  }
  input.oninput = () => { at = 0; draw() }
  input.onkeydown = e => {
    if (e.key === 'ArrowDown') at++
    else if (e.key === 'ArrowUp') at--
    else if (e.key === 'Enter') { e.preventDefault(); go(found[at]); return } else return
    e.preventDefault()
    draw()
  }
  draw()
}
