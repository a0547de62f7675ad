package agents

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/cortex-orchestrator/cortex/agents/calc"
	"github.com/cortex-orchestrator/cortex/agents/clock"
	"github.com/cortex-orchestrator/cortex/transport"
)

// Builtin returns the short names of the agents that [Lookup] knows, sorted.
func Builtin() []string { return []string{"calc", "clock", "echo"} }

// Lookup returns a new card and the handler of a built-in agent, by its short name ("echo") or its id ("agent_echo").
func Lookup(name string) (*a2a.AgentCard, Handler, bool) {
	switch strings.TrimPrefix(name, "agent_") {
	case "calc":
		return calcCard(), wordsOnly(calculate), true
	case "clock":
		return clockCard(), wordsOnly(Clock(time.Now)), true
	case "echo":
		return echoCard(), wordsOnly(echo), true
	}
	return nil, nil, false
}

// wordsOnly returns a handler that reads no files, and says so when it gets some.
func wordsOnly(h Handler) Handler {
	return func(ctx context.Context, t *Task) (*Result, error) {
		r, err := h(ctx, t)
		files := transport.FilesOf(t.Message.Parts)
		if err != nil || len(files) == 0 {
			return r, err
		}
		r.Parts = append(r.Parts, a2a.NewTextPart("("+notRead(files)+": I take words only.)"))
		return r, nil
	}
}

// notRead says of the files of a task that they were not read.
func notRead(files []*a2a.Part) string {
	if n := len(files); n > 1 {
		return fmt.Sprintf("The %d files were not read", n)
	}
	name, kind, _, _ := transport.FileOf(files[0])
	return transport.FileName(name, kind, 1) + " was not read"
}

func echoCard() *a2a.AgentCard {
	return textCard("agent_echo", "A simple echo agent that repeats back messages for testing purposes", a2a.AgentSkill{
		ID:          "echo",
		Name:        "Echo Messages",
		Description: "Echoes back any text message with an 'Echo: ' prefix",
		Tags:        []string{"testing", "echo", "debug"},
		Examples:    []string{"Echo this message", "Repeat what I say", "Test echo functionality"},
	})
}

// echo answers with the task's text and data, whatever skill is named.
func echo(_ context.Context, t *Task) (*Result, error) {
	r := Text("Echo: " + t.Text())
	if v := t.Input(); v != nil {
		r.Parts = append(r.Parts, a2a.NewDataPart(v))
	}
	return r, nil
}

func clockCard() *a2a.AgentCard {
	return textCard("agent_clock", "Tells the current time and date in any time zone, city or country", a2a.AgentSkill{
		ID:   "time",
		Name: "Current Time and Date",
		Description: "Tells the current time, date and weekday in one or more cities, countries or IANA time zones, or the local one when no place is named; " +
			"of a date, its weekday and how many days it is away",
		Tags:     []string{"time", "date", "clock", "timezone", "weekday", "tomorrow", "yesterday"},
		Examples: []string{"What time is it in Tokyo?", "Date in New York", "What day is it in Sydney and in London?", "Time in Europe/Berlin", "How many days until Christmas?"},
	})
}

// Clock returns a handler that tells the time in any place, and where no place is named in the user's time zone; now is its clock.
func Clock(now func() time.Time) Handler {
	return func(_ context.Context, t *Task) (*Result, error) {
		at, name := now(), transport.MetaString(t.Message, transport.MetaTimeZone)
		if zone, err := time.LoadLocation(name); err == nil && name != "" && name != "Local" {
			at = at.In(zone)
		}
		return textResult(clock.Answer(t.Text(), at))
	}
}

func calcCard() *a2a.AgentCard {
	return textCard("agent_calc", "Does exact arithmetic and converts units", a2a.AgentSkill{
		ID:   "calculate",
		Name: "Calculate",
		Description: "Computes an arithmetic expression with + - * / ^ %, parentheses and functions such as sqrt, round, max, sin (radians), " +
			"log (base 10) and ln",
		Tags:     []string{"math", "arithmetic", "calculator", "percent", "number"},
		Examples: []string{"What is 17*23?", "12% of 80", "square root of 2", "divide 10 by 4"},
	}, a2a.AgentSkill{
		ID:          "convert",
		Name:        "Convert Units",
		Description: "Converts between units of length, mass, temperature, time, volume, area, speed, data, energy, power, pressure and angle",
		Tags:        []string{"units", "conversion", "measurement"},
		Examples:    []string{"10 km in miles", "Convert 72 F to C", "How many cups are in a liter?", "5 ft 11 in in cm"},
	})
}

func calculate(_ context.Context, t *Task) (*Result, error) { return textResult(calc.Answer(t.Text())) }

// textResult makes a result of a text, unless there is an error.
func textResult(answer string, err error) (*Result, error) {
	if err != nil {
		return nil, err
	}
	return Text(answer), nil
}

// textCard returns the card of an agent that reads and writes text.
func textCard(name, description string, skills ...a2a.AgentSkill) *a2a.AgentCard {
	for i := range skills {
		skills[i].InputModes, skills[i].OutputModes = []string{"text/plain"}, []string{"text/plain"}
	}
	return complete(&a2a.AgentCard{Name: name, Description: description, Version: "1.0.0", Skills: skills})
}
