package calc_test

import (
	"strings"
	"testing"

	"github.com/cortex-orchestrator/cortex/agents/calc"
)

func TestAnswer(t *testing.T) {
	tests := []struct{ text, want string }{
		// Operators, in signs and in words.
		{"what is 17*23?", "17*23 = 391"},
		{"17 x 23", "17 x 23 = 391"},
		{"what is 4 more than 9", "9 + 4 = 13"},
		{"3 less than 10", "10 - 3 = 7"},
		{"is 91 divisible by 7", "91 / 7 = 13"},
		{"convert to miles: 5 km", "5 km ≈ 3.10685596119 miles"},
		{"22 / 7 rounded to the nearest integer", "round(22 / 7) = 3"},
		{"increase 200 by 10%", "200 + 10% = 220"},
		{"reduce 80 by 5", "80 - 5 = 75"},
		{"what is 3 to the 4th power", "3 ^ 4 = 81"},
		{"2 to the 12th", "2 ^ 12 = 4096"},
		{"twenty divided by 4", "twenty divided by 4 = 5"},
		{"17 times 23", "17 times 23 = 391"},
		{"17 × 23 =", "17 × 23 = 391"},
		{"What's 3 multiplied by 4?", "3 multiplied by 4 = 12"},
		{"(3+4)*5", "(3+4)*5 = 35"},
		{"2 + 3 * 4", "2 + 3 * 4 = 14"},
		{"2(3+4)", "2(3+4) = 14"},
		{"7 over 2", "7 over 2 = 3.5"},
		{"10 minus 12", "10 minus 12 = -2"},
		{"two plus two", "two plus two = 4"},
		{"half of 50", "half of 50 = 25"},
		{"what is seventeen times twenty-three?", "seventeen times twenty-three = 391"},
		{"twenty five plus 1", "twenty five plus 1 = 26"},
		{"ten-three", "ten-three = 7"},
		{"seventy - three", "seventy - three = 67"},
		{"One Hundred and twenty three million times two", "One Hundred and twenty three million times two = 246000000"},
		{"a million divided by four", "a million divided by four = 250000"},
		{"ten percent of two hundred fifty", "ten percent of two hundred fifty = 25"},
		{"2.5 million / 5 thousand", "2.5 million / 5 thousand = 500"},
		{"add two hundred and fifty and three", "(two hundred and fifty) + three = 253"},
		{"three thousand two hundred and five minus five", "three thousand two hundred and five minus five = 3200"},
		{"divide 12 by three", "12 / three = 4"},
		{"twenty-five km in m", "twenty-five km = 25000 m"},
		{"divide 10 by 4", "10 / 4 = 2.5"},
		{"split $87.50 between 4 people", "$87.50 / 4 = 21.875"},
		{"round 3.14159 to 2 decimals", "round(3.14159, 2) = 3.14"},
		{"round 22/7 to 3 places", "round((22/7), 3) = 3.143"},
		{"what's 1/8 as a percentage?", "1/8 = 12.5 %"},
		{"20 is what percent of 80?", "20 / 80 = 25 %"},
		{"what percentage of 80 is 20 + 4", "(20 + 4) / 80 = 30 %"},
		{"7 as a percentage of 9", "7 / 9 ≈ 77.7777777778 %"},
		{"split 120 3 ways", "120 / 3 = 40"},
		{"what is 5 plus 5? and times 3?", "(5 plus 5) times 3 = 30"},
		{"double 14", "14 * 2 = 28"},
		{"twice 3+4", "(3+4) * 2 = 14"},
		{"halve 9", "9 / 2 = 4.5"},
		{"subtract 3 from 10", "10 - 3 = 7"},
		{"subtract 3 + 1 from 10", "10 - (3 + 1) = 6"},
		{"add 3 and 4", "3 + 4 = 7"},
		{"12 multiply by 3", "12 multiply by 3 = 36"},
		{"what is 3 + 4 and then times 5?", "(3 + 4) times 5 = 35"},
		{"add 3 and 4, then multiply by 5 and subtract 1", "((3 + 4) multiply by 5) subtract 1 = 34"},
		{"add 3 and 4 times 5", "3 + (4 times 5) = 23"},
		{"multiply 6 by 7", "6 * 7 = 42"},
		{"sum of 1, 2 and 3", "sum(1, 2, 3) = 6"},
		{"the average of 2 and 4", "average(2, 4) = 3"},
		{"Calculate 17 * 23 and return the result.", "17 * 23 = 391"},
		{"how much is 20% of 50 dollars?", "20% of 50 = 10"},
		{"I want know how much make 25 multiply by 4", "25 multiply by 4 = 100"},
		{"whats the sqaure root of 81", "the sqaure root of 81 = 9"},
		{"It is possible to convert 20 degrees celsius in fahrenheit?", "20 degrees celsius = 68 fahrenheit"},
		{"Plese tell me how many grams are 2 pounds", "2 pounds = 907.18474 grams"},
		{"I have need to convert 5 miles in kilometers", "5 miles = 8.04672 kilometers"},
		{"whats 7 tiems 8", "7 tiems 8 = 56"},
		{"how much does 3 + 4 make?", "3 + 4 = 7"},
		// Powers: right to left, and before the sign.
		{"2^10", "2^10 = 1024"},
		{"2**10", "2**10 = 1024"},
		{"2^3^2", "2^3^2 = 512"},
		{"-2^2", "-2^2 = -4"},
		{"2^-3", "2^-3 = 0.125"},
		{"3²", "3² = 9"},
		{"3 squared", "3 squared = 9"},
		{"2 + 3 cubed", "2 + 3 cubed = 29"},
		{"what is the square of 12?", "12 ^ 2 = 144"},
		{"the cube of 1 + 1", "(1 + 1) ^ 3 = 8"},
		{"2 to the power of 5", "2 to the power of 5 = 32"},
		{"0^0", "0^0 = 1"},
		{"(-1)^1000000001", "(-1)^1000000001 = -1"},
		// Percentages.
		{"12% of 80", "12% of 80 = 9.6"},
		{"15 percent of 200", "15 percent of 200 = 30"},
		{"80 + 10%", "80 + 10% = 88"},
		{"100 + 100 - 15%", "100 + 100 - 15% = 170"},
		{"20% off 50", "20% off 50 = 40"},
		{"50% * 20", "50% * 20 = 10"},
		{"(20+5)% of 80", "(20+5)% of 80 = 20"},
		{"10 % 3", "10 % 3 = 1"},
		{"-7 mod 3", "-7 mod 3 = 2"},
		// Numbers keep their digits.
		{"0.1+0.2", "0.1+0.2 = 0.3"},
		{"1,234.5 + 6", "1,234.5 + 6 = 1240.5"},
		{"$1,000 / 8", "$1,000 / 8 = 125"},
		{"99999999999999999999*99999999999999999999", "99999999999999999999*99999999999999999999 = 9999999999999999999800000000000000000001"},
		{"9223372036854775807 + 1", "9223372036854775807 + 1 = 9223372036854775808"},
		{"1/7*7", "1/7*7 = 1"},
		{"1.5e-7", "1.5e-7 = 0.00000015"},
		{"10/3", "10/3 ≈ 3.33333333333"},
		{"2/3", "2/3 ≈ 0.666666666667"},
		{"123456789012345.678", "123456789012345.678 ≈ 123456789012345.68"},
		// Functions.
		{"sqrt(2)", "sqrt(2) ≈ 1.41421356237"},
		{"sum of 1 2 3 4 5", "sum(1, 2, 3, 4, 5) = 15"},
		{"the average of 10 20 and 60", "average(10, 20, 60) = 30"},
		{"5 factorial", "factorial(5) = 120"},
		{"what is 20!", "factorial(20) = 2432902008176640000"},
		{"the factorial of 3", "factorial(3) = 6"},
		{"square root of 16", "square root of 16 = 4"},
		{"√2.25", "√2.25 = 1.5"},
		{"max(1,234)", "max(1,234) = 234"},
		{"min(3, 1+1)", "min(3, 1+1) = 2"},
		{"round(2.567, 2)", "round(2.567, 2) = 2.57"},
		{"round(-2.5)", "round(-2.5) = -3"},
		{"floor(-2.5)", "floor(-2.5) = -3"},
		{"ceil(2.1)", "ceil(2.1) = 3"},
		{"abs(-5)", "abs(-5) = 5"},
		{"sin(pi/2)", "sin(pi/2) = 1"},
		{"sin(pi)", "sin(pi) = 0"},
		{"log(1000)", "log(1000) = 3"},
		{"ln(e)", "ln(e) = 1"},
		{"2 pi", "2 pi ≈ 6.28318530718"},
		// Units.
		{"10 km in miles", "10 km ≈ 6.21371192237 miles"},
		{"10km to m", "10km = 10000 m"},
		{"convert 72 F to C", "72 F ≈ 22.2222222222 C"},
		{"-40 F to C", "-40 F = -40 C"},
		{"100 degrees Celsius in Fahrenheit", "100 degrees Celsius = 212 Fahrenheit"},
		{"0 K in C", "0 K = -273.15 C"},
		{"5 lb in kg", "5 lb = 2.26796185 kg"},
		{"3 hours in minutes", "3 hours = 180 minutes"},
		{"two hours in minutes", "two hours = 120 minutes"},
		{"how many minutes are in 3 hours?", "3 hours = 180 minutes"},
		{"how many ml in a liter", "1 liter = 1000 ml"},
		{"2 hours and 30 minutes in seconds", "2 hours and 30 minutes = 9000 seconds"},
		{"5 ft 11 in in cm", "5 ft 11 in = 180.34 cm"},
		{"10 * 2 km in m", "10 * 2 km = 20000 m"},
		{"1 hectare in square meters", "1 hectare = 10000 square meters"},
		{"36 km/h in m/s", "36 km/h = 10 m/s"},
		{"1 GB in MB", "1 GB = 1000 MB"},
		{"1 GiB in bytes", "1 GiB = 1073741824 bytes"},
		{"8 Mb in MB", "8 Mb = 1 MB"},
		{"-40 C in F", "-40 C = -40 F"},
		{"-5 + 7", "-5 + 7 = 2"},
		{"100 km in m, cm and mm?", "100 km = 100000 m\n100 km = 10000000 cm\n100 km = 100000000 mm"},
		{"how many feet and inches are in 3 m", "3 m ≈ 9.84251968504 feet\n3 m ≈ 118.11023622 inches"},
		{"1 mile in km, and in m", "1 mile = 1.609344 km\n1 mile = 1609.344 m"},
		// Several requests, each on a line. A sign that is glued to a number belongs to it when more follows.
		{"10 km in miles, no wait, 10 m in feet", "10 km ≈ 6.21371192237 miles\n10 m ≈ 32.8083989501 feet\nI do not understand \"no wait\"."},
		{"Please add up 12, 15 and 20", "sum(12, 15, 20) = 47"},
		{"add 1, 2, 3", "sum(1, 2, 3) = 6"},
		{"add up 1,000 and 5", "1,000 + 5 = 1005"},
		{"add 1,000 and 5", "1,000 + 5 = 1005"},
		{"divide 100 by 7 and round it", "round(100 / 7) = 14"},
		{"what is 10/3 rounded to 2 decimals?", "round(10/3, 2) = 3.33"},
		{"how tall is 6 feet 2 inches in cm", "6 feet 2 inches = 187.96 cm"},
		{"what is 2+2 and what is the meaning of life?", "2+2 = 4\nI do not understand \"what is the meaning of life\"."},
		{"2+2, 3+3 and 5 kg in g", "2+2 = 4\n3+3 = 6\n5 kg = 5000 g"},
		{"what is 2+2 and -5 + 7", "2+2 = 4\n-5 + 7 = 2"},
		{"1/0 and 2+2", "1/0: division by zero has no result\n2+2 = 4"},
		{"3 and -5", "(3) -5 = -2"},
	}
	for _, tt := range tests {
		got, err := calc.Answer(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("Answer(%q) = %q, %v, want %q", tt.text, got, err, tt.want)
		}
	}
}

func TestUnderstands(t *testing.T) {
	for text, want := range map[string]string{
		"17x23": calc.Calculate, "what is seven times eight": calc.Calculate, "sum of 3, 4 and 5": calc.Calculate, "1e400 * 10": calc.Calculate, "1/0": calc.Calculate,
		"sqrt 16": calc.Calculate, "20% of 50": calc.Calculate, "3+4 and then times 5": calc.Calculate,
		"12 lbs in kg": calc.Convert, "how many kg are 12 lbs?": calc.Convert, "70 kg in pounds": calc.Convert, "50 mph in km/h": calc.Convert,
		"42": "", "": "", "times 5": "", "minus two": "", "echo 2+2": "", "one": "", "10 foo in km": "", "5 people in Tokyo": "", "17 23": "", "2+2, 3+3": "",
		"what time is it": "", "back in a second": "", "a cup to go": "", "2x + 3 = 7": "", strings.Repeat("1+", 600) + "1": "",
	} {
		if got := calc.Understands(text); got != want {
			t.Errorf("Understands(%.40q) = %q, want %q", text, got, want)
		}
	}
}

func TestConversion(t *testing.T) {
	for text, want := range map[string]string{
		"how many pounds are 5 kg?": "5 kg in pounds", "convert 10 km to miles": "10 km to miles", "2+2": "", "how many words are in this": "", "5 km": "",
	} {
		if got, ok := calc.Conversion(text); got != want || ok != (want != "") {
			t.Errorf("Conversion(%q) = %q, %t, want %q", text, got, ok, want)
		}
	}
	for name, want := range map[string]bool{"km": true, "Kilometres": true, "nautical miles": true, "Paris": false, "": false, strings.Repeat("k", 1<<20): false} {
		if got := calc.IsUnit(name); got != want {
			t.Errorf("IsUnit(%.20q) = %t, want %t", name, got, want)
		}
	}
}

// TestHostile holds that nothing that a stranger asks is computed without an end.
func TestHostile(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("(", 10_000), strings.Repeat("(", 900), strings.Repeat("x", 1<<20), strings.Repeat("1 km in m, ", 90), strings.Repeat("2+2 and ", 120),
		"9^9^9^9^9", "2^8192^8192", strings.Repeat("9^", 400) + "9", "1e1000^8000", strings.Repeat("in ", 330), strings.Repeat("how many in ", 80),
		"1 km in " + strings.Repeat("m, ", 300) + "m", strings.Repeat("-", 990) + "1", strings.Repeat("exp(", 200) + "9" + strings.Repeat(")", 200),
	} {
		if got, err := calc.Answer(text); len(got) > 10_000 || err != nil && len(err.Error()) > 1000 {
			t.Errorf("Answer(%.40q) is %d bytes, %v", text, len(got), err)
		}
		calc.Understands(text)
		calc.Conversion(text)
	}
}

func TestAnswerRefuses(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "give me one expression"},
		{"?", "give me one expression"},
		{"two three plus 1", "two numbers with nothing between them"},
		{"one hundred and two hundred", "two numbers with nothing between them"},
		{"1/0", "division by zero"},
		{"1 / (2 - 2)", "division by zero"},
		{"5 mod 0", "division by zero"},
		{"0^-1", "division by zero"},
		{"sqrt(-1)", "no real result"},
		{"(-8)^0.5", "no real result"},
		{"ln 0", "no real result"},
		{"9^9^9", "too large"},
		{"2^100000", "too large"},
		{"exp(1000)", "too large"},
		{"1e99999999999", "too large"},
		{"17 23", "nothing between them"},
		{"5 +", "not a complete expression"},
		{"(((1", "not a complete expression"},
		{"3,5 + 1", "not a complete expression"},
		{"sqrt(1, 2)", "sqrt does not take 2 numbers"},
		{"sqrt", "sqrt needs a number"},
		{"% of 3", "no number before a percent sign"},
		{"5 miles", `5 miles in which unit? Ask for it as in "10 km in miles"`},
		{"convert 100 usd to eur", `I know no exchange rates, and so nothing of "usd"`},
		{"how many bananas are 5 apples", `I do not understand "bananas"`},
		{"what is 5 apples", `I do not understand "apples"`},
		{"5!!", "I do not understand \"!\""},
		{"2x + 3 = 7", "I do not understand \"x\""},
		{"I have 5 apples and eat 2", "I do not understand \"I\""},
		{"Bob has 3+4 apples and 5*2 pears", "I do not understand \"Bob\""},
		{"10 km miles or so", "I do not understand \"or\""},
		{"call me at 555-1234", "I do not understand \"call\""},
		{"page 3/4", "I do not understand \"page\""},
		{"15 percent of my salary", "I do not understand"},
		{"sum of 1, 2+2 and foo", "I do not understand \"foo\""},
		{"len([1])", "I do not understand \"len\""},
		{"1; 2", "I do not understand \";\""},
		{"10 km in kg", "10 km is a length and kg a mass"},
		{"10 foo in km", "unknown unit \"foo\""},
		{"10 km in parsnips", "unknown unit \"parsnips\""},
		{strings.Repeat("1+", 600) + "1", "over 1000 bytes"},
	}
	for _, tt := range tests {
		got, err := calc.Answer(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Answer(%q) = %q, %v, want an error with %q", tt.text, got, err, tt.want)
		}
	}
}

// TestAnswerTwice checks that computing does not change the meaning of names such as "two".
func TestAnswerTwice(t *testing.T) {
	for range 2 {
		for text, want := range map[string]string{"two hours in minutes": "two hours = 120 minutes", "two * 1": "two * 1 = 2", "half% of 2": "half% of 2 = 0.01"} {
			if got, err := calc.Answer(text); err != nil || got != want {
				t.Errorf("Answer(%q) = %q, %v, want %q", text, got, err, want)
			}
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"what is 17*23?", "12% of 80", "80 + 10%", "5 ft 11 in in cm", "convert 72 F to C", "sum of 1, 2 and 3", "2^-3^0.5", "round(1e3, 2)", "((((1))))%",
		"x x x", "sqrt sqrt 2", "1e999*1e999", "−5 ÷ √2", "a in in in", "how many in in in", "max(1,2)% off 3", "9 mod 0.1", "-(-(-1))", "\xff1+1", "of % of",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := calc.Answer(text)
		if (err == nil) == (got == "") {
			t.Errorf("Answer(%q) = %q, %v: want either", text, got, err)
		}
		if len(got) > 10_000 || err != nil && len(err.Error()) > 1000 {
			t.Errorf("Answer(%q) is too long: %d bytes, %v", text, len(got), err)
		}
	})
}
