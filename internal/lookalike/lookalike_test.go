package lookalike_test

import (
	"testing"

	"github.com/cortex-orchestrator/cortex/internal/lookalike"
)

func TestSkeleton(t *testing.T) {
	for _, pair := range [][2]string{
		{"pay-bot", "pay_bot"},
		{"pay-bot", "Pay-Bot"},
		{"pay-bot", "pay.bot"},
		{"pay bot", "pay_bot"},
		{"pay-bot", "pаy-bot"}, // Cyrillic а
		{"pay-bot", "рау-bоt"},
		{"pay-bot", "ΡΑΥ-ΒΟΤ"},
		{"pay-bot", "pay-b0t"},
		{"clock", "c1ock"},
		{"clock", "cIock"},
		{"clock", "ｃｌｏｃｋ"},
		{"clock", "𝐜𝐥𝐨𝐜𝐤"},
		{"clock", "cloćk"},
		{"clock", "clo\u0327ck"},
		{"clock", "clock\u3164"},
		{"clock", "clock\ufe0f"},
		{"agent_l", "agent_i"},
		{"modern", "rnodern"},
		{"web", "vveb"},
		{"cortex", "соrtех"},
		{"cortex", "C0RTEX"},
		{"søk", "sok"},
		{"straße", "strabe"},
		{"a-b", "a—b"},
		{"agent_echo", "agent_eᴄhᴏ"}, // small capitals
		{"zap", "zaⲣ"},               // Coptic
		{"zap", "zᴀp"},
		{"wow", "ᴡᴏᴡ"},
		{"vizo", "ᴠizᴏ"},
		{"bank", "ꓐꓮꓠꓗ"}, // Lisu
		{"cop", "ⲥⲟⲣ"},
		{"sos", "ꮪꮎꮪ"}, // small letters of Cherokee
		{"LLM", "𑢲𑢲M"}, // Warang Citi
		{"the-bank", "ᴛʜᴇ-ʙᴀɴᴋ"},
		{"a-b", "aーb"},
		{"a-b", "a一b"},
		{"日本", "曰本"},
		{"ロ", "口"},
		{"味噌", "𠰌噌"}, // from the table of Chinese characters
	} {
		if a, b := lookalike.Skeleton(pair[0]), lookalike.Skeleton(pair[1]); a != b {
			t.Errorf("%q and %q have skeletons %q and %q, want the same", pair[0], pair[1], a, b)
		}
	}
	for _, pair := range [][2]string{
		{"pay-bot", "play-bot"}, {"agent_echo", "agent_clock"}, {"worker-2", "worker-3"}, {"a", "b"}, {"天気", "天文"}, {"погода", "дорога"}, {"", "a"}, {"東京", "東亰都"}, {"worker", "walker"}, {"now", "vow"},
	} {
		if a, b := lookalike.Skeleton(pair[0]), lookalike.Skeleton(pair[1]); a == b {
			t.Errorf("%q and %q have the same skeleton %q", pair[0], pair[1], a)
		}
	}
}

func TestMixed(t *testing.T) {
	for name, want := range map[string]bool{
		"pay-bot": false, "погода-7": false, "pаy": true, "天気-agent": false, "αbc": true, "": false, "wetter-für-süd": false,
		"zaⲣ": true, "𑢲𑢲M": true, "agent_Ꮪ": true, "ꓐank": true, "ձay": true, "погодаπ": true, "ไทย天": true,
		"天気をおしえるエージェント": false, "날씨 agent": false, "東京 날씨": false, "מזג-weather": false, "مساعد-2": false, "मौसम": false, "e\u0301clair": false, "x²·5": false, "\U000e0fff": false,
	} {
		if got := lookalike.Mixed(name); got != want {
			t.Errorf("Mixed(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestSet(t *testing.T) {
	var s lookalike.Set
	if s.Mark("x") != "" {
		t.Error("an empty set has something that looks like x")
	}
	s.Add("pay-bot", "clock", "pay_bot", "pay-bot")
	for name, want := range map[string]string{
		"pay-bot": "looks like pay_bot", "pay_bot": "looks like pay-bot", "clock": "", "cl0ck": "looks like clock", "wеather": "has letters of several alphabets", "weather": "",
	} {
		if got := s.Mark(name); got != want {
			t.Errorf("Mark(%q) = %q, want %q", name, got, want)
		}
	}
	s.Remove("pay_bot")
	s.Remove("nobody")
	if got := s.Mark("pay-bot"); got != "" {
		t.Errorf("Mark of one whose like has gone = %q", got)
	}
}

func BenchmarkAdd(b *testing.B) {
	for b.Loop() {
		lookalike.Skeleton("agent_weather-forecast-17")
	}
}
