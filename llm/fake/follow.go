package fake

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cortex-orchestrator/cortex/agents/calc"
	"github.com/cortex-orchestrator/cortex/agents/clock"
	"github.com/cortex-orchestrator/cortex/llm"
	"github.com/cortex-orchestrator/cortex/prompt"
)

const (
	maxFollow = 80 // bytes of a continuation
	maxBack   = 3  // turns that it may refer back to
)

// follow completes a text that continues an earlier request, such as "and in Paris?", to a whole request: "what time is it in Paris?". The agent of
// the earlier request gets it. follow returns nil when the text stands for itself.
func (m *matcher) follow(t *llm.Turn) []piece {
	text := strings.TrimSpace(t.User)
	if _, called := m.addressed(text); called || text == "" {
		return nil
	}
	if p, ok := m.otherPlace(t.History, text); ok {
		return []piece{p}
	}
	if pieces := m.more(t.History, text); len(pieces) > 0 {
		return pieces
	}
	if len(text) > maxFollow || strings.Contains(text, "\n") {
		return nil
	}
	rest, opened := opening(text)
	last, all := earlier(t.History)
	if opened && len(last) > 0 && clock.Understands(rest) && !clock.HasDate(rest) && !clock.HasPlace(rest) && !here.MatchString(rest) { // "and the date?": there
		before := last[0]
		place := phraseOf(before.Text, func(p string) bool { return places[p] })
		if at := m.find(before.Agent); at >= 0 && before.Agent == clockID && place != nil && clock.HasPlace(before.Text[place[0]:place[1]]) {
			asked := strings.TrimRight(rest, "?!. ")
			return []piece{m.goesOn(at, before, asked+" "+before.Text[place[0]:place[1]]+rest[len(asked):])}
		}
	}
	if p, ok := m.otherOperand(last, text, rest, opened); ok {
		return []piece{p}
	}
	for _, before := range all {
		whole := withResult(before, rest)
		if whole == "" {
			if calc.Understands(before.Text) == calc.Convert {
				break // the last result is no plain number, and an earlier one is not meant
			}
			continue
		}
		// The agent that gave the number need not be the one that calculates.
		if at := m.find(before.Agent); at >= 0 && m.has(at, []byte(calcTerm)) {
			return []piece{m.goesOn(at, before, whole)}
		}
		if c := m.best(whole); c.agent >= 0 {
			return []piece{{agent: c.agent, skill: c.skill, task: whole, about: whole, reason: m.agents[c.agent].ID + ": it goes on with the last result"}}
		}
	}
	ways := []func(before prompt.Task, at int) string{
		func(before prompt.Task, at int) string { return m.goOn(before, at, rest, opened) },
		func(before prompt.Task, at int) string { return m.goFurther(before, at, rest, opened) },
	}
	turns := [][]prompt.Task{last, last}
	if opened && namesPlace.MatchString(rest) { // what was asked in between may be about no place
		ways = append(ways, func(before prompt.Task, at int) string {
			if !m.speaksOfSome(at, somePlace) {
				return ""
			}
			return m.goOn(before, at, rest, opened)
		})
		turns = append(turns, all[min(len(last), len(all)):])
	}
	for i, way := range ways {
		for _, before := range turns[i] {
			at := m.find(before.Agent)
			if at < 0 {
				continue
			}
			if _, material := m.materialOf(t.History, lastTurn(t.History, len(t.History)), &before); material && contentAt(before.Text) == 0 && !anew.MatchString(rest) {
				continue // it cannot be completed that way
			}
			if plain, ok := calc.Conversion(before.Text); ok {
				before.Text = plain
			}
			if whole := way(before, at); strings.TrimSpace(whole) != "" && len(whole) <= llm.MaxTask {
				return []piece{m.goesOn(at, before, whole)}
			}
		}
	}
	return nil
}

// otherPlace returns the latest request about places with another one, "what about Mumbai?", also when it is not the last one: behind a request with
// material for an agent that knows no places, a place is no other material.
func (m *matcher) otherPlace(history []prompt.Turn, text string) (piece, bool) {
	rest, opened := opening(text)
	if !opened && !strings.HasSuffix(text, "?") || len(text) > maxFollow || !clock.Names(rest) {
		return piece{}, false
	}
	_, all := earlier(history)
	for _, before := range all {
		at := m.find(before.Agent)
		if at < 0 || !m.speaksOfSome(at, somePlace) {
			continue
		}
		whole := m.goOn(before, at, rest, true)
		if whole == "" {
			whole = m.goFurther(before, at, rest, true)
		}
		return m.goesOn(at, before, whole), whole != ""
	}
	return piece{}, false
}

// otherOperand returns a calculation with another number in the place of its last one, "no, I meant 20%" behind "24 plus 10", or with another share.
func (m *matcher) otherOperand(last []prompt.Task, text, rest string, opened bool) (piece, bool) {
	bare := strings.TrimRight(rest, "?!. ")
	number := percentage.FindStringSubmatch(bare)
	op := operation.FindString(bare)
	if !opened || number == nil && (op == "" || !corrects.MatchString(text)) {
		return piece{}, false
	}
	for _, before := range last {
		asked := strings.TrimRight(before.Text, "?!. ")
		var had []int
		if number == nil { // "no, / 4"
			had = lastOperation.FindStringSubmatchIndex(asked)
		} else if number[1] != "" {
			had = percentOf.FindStringSubmatchIndex(asked)
		}
		if number != nil && had == nil && corrects.MatchString(text) {
			had = lastOperand.FindStringSubmatchIndex(asked)
		}
		if at := m.find(before.Agent); at >= 0 && had != nil && understood(asked) == calc.Calculate {
			return m.goesOn(at, before, inPlace(asked, had[2:4], bare)), true
		}
	}
	return piece{}, false
}

// goesOn returns the piece for the agent at, which had an earlier task.
func (m *matcher) goesOn(at int, before prompt.Task, whole string) piece {
	return piece{
		agent: at, skill: knownSkill(&m.agents[at], before.Skill), task: whole, about: whole,
		reason: m.agents[at].ID + ": it goes on with what was asked before",
	}
}

// earlier returns the tasks of the last turn with any, and those of the last maxBack turns, the latest first.
func earlier(history []prompt.Turn) (last, all []prompt.Task) {
	for i := len(history) - 1; i >= max(0, len(history)-maxBack); i-- {
		tasks := tasksOf(&history[i])
		if last == nil {
			last = tasks
		}
		all = append(all, tasks...)
	}
	return last, all
}

// Read only.
var (
	opener = regexp.MustCompile(`(?i)^(?:(?:(?:(?:no|nope|wait|sorry|oops|actually)\s*[,:]|(?:(?:oh,? )?no wait|wait no|no sorry|sorry no|(?:no |sorry )?i meant?)\b)[\s,:]*)+|(?:(?:and|or|also|then|so|now|but|ok|okay|please|well)\b[\s,]*)*(?:what|how) about\b|` +
		`(?:(?:ok|okay|alright|hmm|well|cool|great|thanks)\b[\s,!.]*)?(?:and|or|also|then|now|but|so)\b[\s,]*(?:then |also |now )*(?:(?:do |show )?(?:the )?same\b)?|(?:the )?same\b)[\s,:]*`)
	anew = regexp.MustCompile(`(?i)^(?:please )?(?:(?:do|say|try|repeat|ask|run|show) (?:it |that |this |him |her )?)?` +
		`(?:again|once more|one more time|another time|a second time)(?:,? please)?[.!?]*$|^(?:please )?(?:(?:can|could|would|will) you )?(?:please )?repeat (?:that|it)(?:,? please)?[.!?]*$`)
	// operation is what begins with an operator: it goes on with the last result.
	operation = regexp.MustCompile(`(?i)^(?:[+*/×÷^]|-|−|plus\b|minus\b|times\b|over\b|x\b|divided? by\b|multipl(?:y|ied) by\b|add\b|subtract\b|take away\b|to the power of\b)\s*[\d.(]`)
	// operator is one in words, behind which a number may be one in words, too.
	operator = regexp.MustCompile(`(?i)^(?:plus|minus|times|over|divided? by|multipl(?:y|ied) by|add|subtract|take away|to the power of|squared|cubed)\b`)
	// signed begins with a number that has a sign, and nothing between them; lone is nothing but that.
	signed = regexp.MustCompile(`^[-+−][\d.]`)
	lone   = regexp.MustCompile(`(?i)^[-+−][\d.,]+\s*(?:%|percent)?(?:,? please)?[?.!]*$`)
	// command begins what may also be an operation on two numbers of its own: "add 5", "add 5 and 7".
	command = regexp.MustCompile(`(?i)^(?:add|subtract)\b`)
	// lastOperand is what an operation in words does with a number.
	lastOperand = regexp.MustCompile(`(?i)(?:\bby|\btimes|\bplus|\bminus|\badd|\bsubtract|[-+*/×÷−])\s*(\d[\d.,]*(?:\s*(?:%|percent))?)$`)
	// lastOperation is that with its operator.
	lastOperation = regexp.MustCompile(`(?i)((?:\b(?:divided by|multiplied by|times|plus|minus)|[-+*/×÷−])\s*\d[\d.,]*(?:\s*(?:%|percent))?)$`)
	// corrects begins a correction; percentage is a number that may stand in the place of another one.
	corrects   = regexp.MustCompile(`(?i)^(?:no|nope|wait|sorry|oops|actually|i meant?)\b`)
	percentage = regexp.MustCompile(`(?i)^[-−]?\d[\d.,]*(\s*(?:%|percent))?$`)
	// percentOf is a share, in whose place another one may be: "and 20%?" behind "18% of 250".
	percentOf = regexp.MustCompile(`(?i)\b(\d[\d.,]*\s*(?:%|percent)) (?:of|off)\b`)
	byNumber  = regexp.MustCompile(`(?i)^by (\d[\d.,]*)$`)
	// rounds wants the last result rounded.
	rounds = regexp.MustCompile(`(?i)^(?:then )?round(?:ed)?(?: (?:it|that|this|the result))?((?: (?:up|off))?(?: to .*)?)$`)
	// ofThat is another word for the last result; onThat and toThat are operations on it.
	ofThat = regexp.MustCompile(`(?i)\b(?:that|it|this|the result|the answer|the last one)\b`)
	onThat = regexp.MustCompile(`(?i)^(?:(?:what|how much) is |what's |calculate |compute )?(?:(?:multiply|divide|add|subtract|take|double|half|halve|twice|round|` +
		`[\d.]+\s*%|[\d.]+ percent) (?:.* )?(?:that|it|this|the result|the answer)\b|(?:that|it|this|the result|the answer) ` +
		`(?:[+*/×÷^−-]|plus|minus|times|divided by|multiplied by))`)
	toThat     = regexp.MustCompile(`(?i)^(?:add|subtract) \S+ (?:to|from) (?:that|it|this|the result|the answer)[.?!]*$`)
	lastNumber = regexp.MustCompile(`(?:^|[=≈]\s*)(-?\d[\d,]*(?:\.\d+)?)\s*$`)
	quantity   = regexp.MustCompile(`^([-−]?\d[\d,.]*)(?:\s*([\p{L}°]+))?[?.!]*$`)
	aQuantity  = regexp.MustCompile(`[-−]?\d[\d,.]*(?:\s*[\p{L}°]+)?`)
	day        = regexp.MustCompile(`(?i)\b(?:(?:today|tomorrow|tonight|yesterday|now)\b|(?:(?:on|this|next|last) )?(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b|` +
		`(?:this|next|last|in the) (?:week|weekend|month|year|morning|afternoon|evening)\b)`)
	// somePlace is what the card of an agent has that is asked about places.
	somePlace = regexp.MustCompile(`\b(?:[iI]n|[aA]t|[nN]ear|[aA]round|[fF]or) \p{Lu}|(?i:\b(?:places?|city|cities|country|countries|locations?|where|anywhere)\b)`)
	// namesPlace is nothing but a place, by its name.
	namesPlace = regexp.MustCompile(`^(?:in|at|near) \p{Lu}[\p{L}.'’-]*(?: \p{Lu}[\p{L}.'’-]*)*[?.! ]*$`)
	// placeList is a phrase with several places, by their names.
	placeList = regexp.MustCompile(`\b(?:in|at|for|near|around) \p{Lu}[\p{L}.'’-]*(?: \p{Lu}[\p{L}.'’-]*)*(?:(?:,? (?:and|or)|,) (?:(?:in|at|for|near|around) )?\p{Lu}[\p{L}.'’-]*(?: \p{Lu}[\p{L}.'’-]*)*)+`)
	// sharesOf are what something is a part of, or taken off, by the word before it.
	sharesOf = map[string]*regexp.Regexp{"of": regexp.MustCompile(`(?i)\bof\s+\S.*[^\s?!.]`), "off": regexp.MustCompile(`(?i)\boff\s+\S.*[^\s?!.]`)}
	// here is what says of which place or day a question is, without naming one; land is what stands behind a city.
	here  = regexp.MustCompile(`(?i)\b(?:here|my|local|today|tomorrow|yesterday)\b`)
	land  = regexp.MustCompile(`^, \pL+(?: \pL+)?`)
	there = regexp.MustCompile(`(?i)\b(over )?there((?: (?:in|on|at|now|right now|today|tomorrow|next)\b.*)?[?.!]*)$`)
	// places and aims are prepositions that stand for each other.
	places = set(`in at for near around`)
	aims   = set(`to into in as`)
)

// opening removes the beginning that marks a continuation, such as "and" or "what about".
func opening(text string) (rest string, opened bool) {
	at := opener.FindStringIndex(text)
	if at == nil || at[1] == len(text) {
		return text, false
	}
	return text[at[1]:], true
}

// goOn returns the whole request that rest stands for after an earlier one, which the agent at had; "" when it is no continuation. The part of the
// earlier request after a colon or in quotes is material, and stays.
func (m *matcher) goOn(before prompt.Task, at int, rest string, opened bool) string {
	content := ""
	if end := contentAt(before.Text); end > 0 && !anew.MatchString(rest) {
		before.Text, content = before.Text[:end], before.Text[end:]
	}
	if whole := m.instead(before, at, rest, opened); whole != "" {
		return whole + content
	}
	return ""
}

// instead returns a request in which the text in rest replaces its counterpart.
func (m *matcher) instead(before prompt.Task, at int, rest string, opened bool) string {
	bare := strings.TrimRight(rest, "?!. ")
	word, behind := nextWord(bare)
	word = strings.ToLower(word)
	if of := strings.TrimSuffix(word, ":"); of != word && (of == "of" || places[of] || aims[of]) {
		word, bare = of, of+" "+behind // "and in: Paris"
	}
	n := len(strings.Fields(bare))
	switch {
	case bare == "" || understood(rest) != "":
		return "" // it is a calculation of its own: "6!"
	case anew.MatchString(rest):
		return before.Text
	case quotedAt(bare) == len(bare):
		if had := lastQuoted(before.Text); had != nil {
			return inPlace(before.Text, had, bare)
		}
		return ""
	case byNumber.MatchString(bare):
		asked := strings.TrimRight(before.Text, "?!. ")
		if had := lastOperand.FindStringSubmatchIndex(asked); had != nil {
			return inPlace(asked, had[2:], byNumber.FindStringSubmatch(bare)[1])
		}
		return ""
	case n > 6 && word != "of" || n > 4 && !opened || operation.MatchString(rest) && !signed.MatchString(rest) || strings.HasSuffix(word, ":"):
		return ""
	case day.FindString(bare) == bare:
		if then := day.FindStringIndex(before.Text); then != nil {
			return inPlace(before.Text, then, bare)
		}
		return ""
	case m.others(rest, at):
		return "" // it asks another agent for something
	case aims[word] && calc.IsUnit(behind) && calc.Understands(before.Text) != calc.Convert:
		return "" // nothing there has a unit
	case (word == "of" || word == "off") && behind != "":
		if of := sharesOf[word].FindStringIndex(masked(before.Text)); of != nil {
			return inPlace(before.Text, of, bare)
		}
		return ""
	case (places[word] || aims[word]) && behind != "":
		if phrase := phraseOf(before.Text, func(p string) bool { return p == word }); phrase != nil {
			return inPlace(before.Text, phrase, bare)
		}
		like := places
		if word == "to" || word == "into" || word == "as" {
			like = aims
		}
		if phrase := phraseOf(before.Text, func(p string) bool { return like[p] || aims[word] && aims[p] }); phrase != nil {
			return inPlace(before.Text, phrase, bare)
		}
		return ""
	case quantity.MatchString(bare):
		return otherQuantity(before.Text, bare)
	}
	first, _ := utf8.DecodeRuneInString(bare)
	if !opened && !unicode.IsUpper(first) && !strings.HasSuffix(rest, "?") || n > 4 || questions[word] || requests[word] || stop[word] {
		return ""
	}
	if m.worker(bare) == at {
		return "" // it is a complete request
	}
	phrase := phraseOf(before.Text, func(p string) bool { return places[p] || aims[p] || prepositions[p] || p == "of" })
	if phrase == nil {
		return ""
	}
	p, had := nextWord(before.Text[phrase[0]:phrase[1]])
	if first, _ := utf8.DecodeRuneInString(had); !unicode.IsUpper(first) && !places[strings.ToLower(p)] {
		return "" // it is not like a name
	}
	return inPlace(before.Text, phrase, p+" "+bare)
}

// others reports whether a text has words, except names, that fit another agent.
func (m *matcher) others(text string, at int) bool {
	words := strings.Fields(text)
	words = slices.DeleteFunc(words, func(w string) bool {
		r, _ := utf8.DecodeRuneInString(w)
		return unicode.IsUpper(r)
	})
	if len(words) > 0 && len(words) <= 3 && (places[strings.ToLower(words[0])] || aims[strings.ToLower(words[0])]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return false
	}
	who := m.worker(strings.Join(words, " "))
	return who >= 0 && who != at
}

// worker returns the agent whose work a text is about; -1 when there is none, or the text only matches an example.
func (m *matcher) worker(text string) int {
	c := m.best(text)
	if c.agent >= 0 && c.agent < len(m.cards) && !m.cards[c.agent].speaksOf(text, &m.scan) {
		return -1
	}
	return c.agent
}

// goFurther returns an earlier request with a place or a day appended; "" when rest is neither, or the request is a calculation. A name behind "what
// about" is a place to an agent that knows places.
func (m *matcher) goFurther(before prompt.Task, at int, rest string, opened bool) string {
	bare := strings.TrimRight(rest, "?!. ")
	if first, _ := utf8.DecodeRuneInString(bare); opened && unicode.IsUpper(first) && len(strings.Fields(bare)) <= 3 && day.FindString(bare) != bare {
		bare = "in " + bare
	}
	word, behind := nextWord(bare)
	place := places[strings.ToLower(word)] && behind != "" && len(strings.Fields(bare)) <= 6 && !m.others(rest, at)
	if bare == "" || contentAt(before.Text) > 0 || lastQuoted(before.Text) != nil || !place && day.FindString(bare) != bare || strings.ContainsFunc(before.Text, unicode.IsDigit) {
		return ""
	}
	if clock.HasDate(bare) && clock.HasDate(before.Text) {
		return "" // it stands for itself
	}
	if place && !m.speaksOfSome(at, somePlace) || !place && !m.speaksOfSome(at, day) {
		return "" // it would be one word more of what somebody is to be told, or to repeat
	}
	asked := strings.TrimRight(before.Text, "?!. ")
	return asked + " " + bare + before.Text[len(asked):]
}

// speaksOfSome reports whether the card of an agent has what a pattern finds.
func (m *matcher) speaksOfSome(at int, pattern *regexp.Regexp) bool {
	card := m.agents[at].Card
	if card == nil {
		return false
	}
	texts := []string{card.Description}
	for i := range card.Skills {
		s := &card.Skills[i]
		texts = append(append(append(texts, s.Name, s.Description), s.Tags...), s.Examples...)
	}
	return slices.ContainsFunc(texts, func(text string) bool { return pattern.MatchString(head(text)) })
}

// continues reports whether a text begins with an operator, and so goes on with the last result. A sign that is glued to a number makes that negative,
// as in "-40 C in F" and "-5 + 7", unless nothing else follows: then "-5" takes five away, since a number alone asks for nothing.
func continues(text string) bool {
	if signed.MatchString(text) {
		return len(text) <= maxFollow && lone.MatchString(text)
	}
	if operation.MatchString(text) {
		return !command.MatchString(text) || understood(text) == ""
	}
	return operator.MatchString(text) && understood("1 "+text) != "" // "times two", "squared"
}

// withResult returns an operation on the number that a task ended with, "times 2" or "half of that"; "" when rest is none, or there is none.
func withResult(before prompt.Task, rest string) string {
	n := lastNumber.FindStringSubmatch(strings.TrimSpace(before.Result))
	rounded := rounds.FindStringSubmatch(strings.TrimRight(rest, "?!. "))
	switch {
	case n == nil:
		return ""
	case rounded != nil:
		return n[1] + " rounded" + rounded[1]
	case continues(rest) && !toThat.MatchString(rest):
		return n[1] + " " + rest
	case onThat.MatchString(rest):
		if first, _, ok := strings.Cut(rest, " and "); ok && understood(first) != "" {
			return "" // "divide 100 by 7 and round it": that is the result of the first half
		}
		return ofThat.ReplaceAllLiteralString(rest, n[1])
	}
	return ""
}

// phraseOf returns where the last phrase of text is that begins with a preposition that is wanted, such as "in New York" of "what time is
// it in New York now?"; nil when there is none.
func phraseOf(text string, wanted func(preposition string) bool) []int {
	text = masked(text)
	var found []int
	open := false
	for i := 0; i < len(text); {
		n := strings.IndexFunc(text[i:], unicode.IsSpace)
		if n < 0 {
			n = len(text) - i
		}
		word := text[i : i+n]
		plain := strings.ToLower(strings.Trim(word, ",;.?!"))
		switch {
		case n == 0:
		case wanted(plain) && i+n < len(text):
			found, open = []int{i, i + n}, true
		case !open:
		case prepositions[plain] || plain == "and" || plain == "please" || plain == "right" || day.MatchString(plain):
			open = false
		default:
			found[1] = i + len(strings.TrimRight(word, ",;.?!"))
			open = word == strings.TrimRight(word, ",;.?!")
		}
		i += n
		i = len(text) - len(strings.TrimLeftFunc(text[i:], unicode.IsSpace))
	}
	if found != nil && stop.all(plainWords(text[found[0]:found[1]])[1:]) {
		return nil // "to be" is no place
	}
	if found == nil || strings.TrimSpace(text[found[0]:found[1]]) == firstWord(text[found[0]:]) {
		return nil
	}
	if _, place := nextWord(text[found[0]:found[1]]); clock.Names(place) {
		found[1] += len(land.FindString(text[found[1]:])) // "in Oslo, Norway"
	}
	for _, all := range placeList.FindAllStringIndex(text, -1) {
		if all[0] <= found[0] && found[0] < all[1] {
			return []int{all[0], max(all[1], found[1])} // "in Berlin and in Munich" is one phrase
		}
	}
	return found
}

func firstWord(s string) string {
	word, _ := nextWord(s)
	return word
}

// inPlace returns text with phrase in the place of what stands at.
func inPlace(text string, at []int, phrase string) string {
	return text[:at[0]] + phrase + text[at[1]:]
}

// otherQuantity returns text with another quantity in the place of its last one of the same unit, or of the first number; "" when it has
// none.
func otherQuantity(text, other string) string {
	q := quantity.FindStringSubmatch(other)
	all := aQuantity.FindAllStringIndex(text, -1)
	if q == nil || len(all) == 0 {
		return ""
	}
	if q[2] == "" {
		number := quantity.FindStringSubmatch(text[all[0][0]:all[0][1]])
		if number == nil || len(all) > 1 {
			return ""
		}
		return text[:all[0][0]] + q[1] + text[all[0][0]+len(number[1]):]
	}
	for _, at := range slices.Backward(all) {
		if had := quantity.FindStringSubmatch(text[at[0]:at[1]]); had != nil && strings.EqualFold(had[2], q[2]) {
			return inPlace(text, at, other)
		}
	}
	return ""
}

// whereThere returns text with the place that "there", its last word, stands for: that of the task before.
func whereThere(text string, history []prompt.Turn) string {
	at := there.FindStringSubmatchIndex(text)
	if at == nil {
		return text
	}
	words := plainWords(text[:at[0]] + "there")
	if len(words) < 3 || slices.Contains([]string{"is", "are", "was", "hi", "hello", "hey"}, words[len(words)-2]) {
		return text
	}
	last, _ := earlier(history)
	for _, before := range last {
		if phrase := phraseOf(before.Text, func(p string) bool { return p == "in" || p == "at" || p == "near" }); phrase != nil {
			return text[:at[0]] + before.Text[phrase[0]:phrase[1]] + text[at[4]:]
		}
	}
	return text
}
