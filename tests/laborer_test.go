package tests

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"
)

// laborer is the program of an agent, which speaks jsonl and stays. It adds a line to the file in its argument for each task, and each reply, that it
// begins. "work X" is done in some steps, "ask X" is a question first, and "hold X" lasts until it is canceled.
func laborer() {
	type line struct {
		Type  string `json:"type"`
		ID    string `json:"id"`
		Text  string `json:"text,omitempty"`
		Reply bool   `json:"reply,omitempty"`
		State string `json:"state,omitempty"`

		Name   string `json:"name,omitempty"`
		Append bool   `json:"append,omitempty"`
	}
	var mu sync.Mutex
	held := map[string]bool{} // by the ids of tasks
	say := func(l line) {
		b, err := json.Marshal(l)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			_, err = fmt.Println(string(b))
		}
		if err != nil {
			os.Exit(1)
		}
	}
	begin := func(l line) {
		f, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			_, err = f.WriteString(l.Text + "\n")
			f.Close()
		}
		if err != nil {
			os.Exit(1)
		}
		what, of, _ := strings.Cut(l.Text, " ")
		switch {
		case l.Reply:
			say(line{Type: "result", ID: l.ID, Text: "finished " + l.State + " with " + l.Text})
		case what == "ask":
			say(line{Type: "input_required", ID: l.ID, Text: "Which for " + of + "?", State: of})
		case what == "hold":
			say(line{Type: "progress", ID: l.ID, Text: "it is held"})
		default:
			say(line{Type: "text", ID: l.ID, Text: "finished " + of})
			for n := range laborSteps {
				time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // it is at work
				say(line{Type: "text", ID: l.ID, Text: fmt.Sprint(" ", n)})
				say(line{Type: "artifact", ID: l.ID, Name: "steps", Text: fmt.Sprint(" ", n), Append: true})
			}
			say(line{Type: "result", ID: l.ID})
		}
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			os.Exit(1)
		}
		switch {
		case l.Type == "task":
			held[l.ID] = strings.HasPrefix(l.Text, "hold ")
			go begin(l)
		case l.Type == "cancel" && held[l.ID]:
			say(line{Type: "error", ID: l.ID, Text: "canceled"})
		}
	}
}

// laborSteps is the number of steps of the laborer's work.
const laborSteps = 4

// labored returns what the laborer's steps are in an answer.
func labored() (text string) {
	for n := range laborSteps {
		text += fmt.Sprint(" ", n)
	}
	return text
}
