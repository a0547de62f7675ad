package decide

import "testing"

func TestNames(t *testing.T) {
	for _, test := range []struct {
		text, name string
		want       bool
	}{
		{"What is the weather like?", "a", false},
		{"What is a house?", "a", false},
		{"@a, what is a house?", "A", true},
		{"I weather it", "eat", false},
		{"ask Oracle what it is like", "oracle", true},
		{"ask the weather-man, please", "weather-man", true},
		{"oracles, or (oracle)?", "oracle", true},
		{"oracles", "oracle", false},
		{"my_oracle", "oracle", false},
		{"ask the Weather Man", "weather man", true},
		{"请问oracle今天", "oracle", true},
		{"天气怎么样", "天气怎", true},
		{"anything", "", false},
		{"", "oracle", false},
		{"été", "t", false},
	} {
		if got := names(test.text, test.name); got != test.want {
			t.Errorf("names(%q, %q) = %t, want %t", test.text, test.name, got, test.want)
		}
	}
}
