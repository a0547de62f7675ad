package router

import (
	"strings"

	"github.com/kljensen/snowball/english"
)

// common maps the stems of words that occur in many texts on any subject to the share of texts that they occur in.
var common = func() map[string]float32 {
	m := make(map[string]float32)
	add := func(p float32, words string) {
		for _, w := range strings.Fields(words) {
			m[english.Stem(w, true)] = p
		}
	}
	add(0.9, `a an and are as at be by for from i in is it its me my of on or s t that the this to what with you your`)
	add(0.5, `about after again all also am any been before but can cannot could d did do does doing don each few had has have
		having he her here him his how if into isn just ll m may might more most much must no nor not now off once only
		other our out over own re same shall she should so some such than their them then there these they those through
		too under until up us ve very was we were when where which while who whom whose why will won would yes`)
	add(0.25, `find get give hello help hey hi kindly know let like look looking make many need ok okay please say show tell
		thank thanks try use using via want wanted way wish provide provides based different using currently various
		specific able etc one two first message`)
	add(0.05, `agent answer ask available best detail details example file good great information input interested item line
		list name new number output question recommend request result results return returns search see sentence
		service simple something string suggest task text thing things think tool user value data check`)
	return m
}()
