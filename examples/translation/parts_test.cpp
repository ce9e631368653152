// SPDX-License-Identifier: MIT
// The parts of headmix-translate that are not layers: BLEU against sacreBLEU's numbers, subwords, catalogues of hostile
// bytes, the corpus and its batches. It also writes the catalogue of the programs' tests.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>

#include "../../tests/error_of.hpp"
#include "bleu.hpp"
#include "corpus.hpp"
#include "files.hpp"
#include "subwords.hpp"
#include "training.hpp"

using namespace translation;
using headmix::test::error_of;
namespace fs = std::filesystem;

namespace {

using Bytes = std::vector<unsigned char>;

void put(Bytes& bytes, std::size_t at, std::uint32_t number, bool big) {
  for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<unsigned char>(number >> (8 * (big ? 3 - i : i)));
}
/// A catalogue of these messages.
Bytes catalogue(std::vector<Pair> const& pairs, bool big = false) {
  auto const n = pairs.size();
  Bytes bytes(28 + 16 * n);
  std::uint32_t const numbers[] = {
      0x950412de, 0, static_cast<std::uint32_t>(n), 28, static_cast<std::uint32_t>(28 + 8 * n), 0, 0};
  for (std::size_t i = 0; i < 7; ++i) put(bytes, 4 * i, numbers[i], big);
  for (std::size_t side = 0; side < 2; ++side) {
    for (std::size_t i = 0; i < n; ++i) {
      std::string const& text = side == 0 ? pairs[i].first : pairs[i].second;
      std::size_t const entry = 28 + 8 * (side * n + i);
      put(bytes, entry, static_cast<std::uint32_t>(text.size()), big);
      put(bytes, entry + 4, static_cast<std::uint32_t>(bytes.size()), big);
      bytes.insert(bytes.end(), text.begin(), text.end());
      bytes.push_back(0);
    }
  }
  return bytes;
}
std::string text_of(Bytes const& bytes) { return {bytes.begin(), bytes.end()}; }

/// 480 sentences of a regular grammar, with accelerators, contexts, plural forms, and messages that are not used.
std::vector<Pair> small_language() {
  std::vector<Pair> const verbs = {
      {"Open", "öffnen"}, {"Close", "schließen"}, {"Delete", "löschen"}, {"Print", "drucken"}};
  std::vector<Pair> const kinds = {
      {"red", "rote"}, {"blue", "blaue"}, {"new", "neue"}, {"old", "alte"}, {"empty", "leere"}};
  std::vector<Pair> const nouns = {{"page", "Seite"}, {"table", "Tabelle"}, {"line", "Zeile"},
                                   {"file", "Datei"}, {"area", "Fläche"},   {"cell", "Zelle"}};
  std::vector<Pair> const ends = {{"", ""}, {" now", " jetzt"}, {" here", " hier"}, {" again", " nochmals"}};
  std::vector<Pair> all = {
      {"", "Content-Type: text/plain; charset=UTF-8\n"}, {"OK", "OK"}, {"two\nlines", "zwei\nZeilen"}};
  for (auto const& [verb, to_verb] : verbs) {
    for (auto const& [kind, to_kind] : kinds) {
      for (auto const& [noun, to_noun] : nouns) {
        for (auto const& [end, to_end] : ends) {
          std::string const from = verb + " the " + kind + " " + noun + end,
                            to = "Die " + to_kind + " " + to_noun + to_end + " " + to_verb;
          bool const first = all.size() % 2 == 0;
          all.emplace_back(first ? "menu\4_" + from : from + std::string("\0many", 5), first ? "~" + to : to);
        }
      }
    }
  }
  return all;
}

std::string refused(Bytes const& bytes) {
  return error_of([&] { static_cast<void>(read_catalogue(bytes, "a.mo")); });
}

}  // namespace

TEST_CASE("translation: BLEU is sacreBLEU's to the last digit") {
  // sacrebleu 2.6.0: BLEU().corpus_score(translations, [references]).score
  CHECK(bleu({"Die Datei konnte nicht geöffnet werden.", "Wählen Sie eine Farbe aus (z. B. Rot).",
              "Es wurden 1,234.5 Zeilen in 10-20 Sekunden gelesen."},
             {"Die Datei kann nicht geöffnet werden.", "Wählen Sie eine Farbe (z. B. Rot) aus.",
              "Es wurden 1,234.5 Zeilen in 10-20 Sekunden gelesen!"}) ==
        doctest::Approx(73.7195430244345).epsilon(1e-14));
  // Shorter than the references, and without a 4-gram that matches.
  CHECK(bleu({"Zellen verbinden und mehr", "Alle Zellen", "Hilfe zu Formeln"},
             {"Zellen verbinden und zentrieren", "Alle markierten Zellen jetzt löschen",
              "Hilfe zu den Formeln anzeigen ..."}) == doctest::Approx(21.44751688504696).epsilon(1e-14));
  CHECK(bleu({"„Größe“ & &quot;Höhe&quot;: 5.5\u00a0cm – naïve … café", "x=[a-b]; 3-4, 5.-6 ,7. ok",
              "日本語 の テキスト です 。 ok"},
             {"„Größe“ &amp; \"Höhe\": 5,5\u00a0cm – naiv … café", "x = [a-b]; 3-4, 5.-6, 7. ok",
              "日本語 の 文 です 。 ok"}) == doctest::Approx(76.07697202182575).epsilon(1e-14));
  CHECK(bleu({"a b c d e"}, {"f g h i j"}) == 0);
  CHECK(bleu({"ja nein"}, {"ja nein vielleicht"}) == 0);  // no 4-gram
  CHECK(bleu({"ja nein ja nein"}, {"ja nein ja nein"}) == doctest::Approx(100).epsilon(1e-14));
  CHECK(error_of([] { static_cast<void>(bleu({"a"}, {})); }) ==
        "headmix: bleu: expected as many references as translations, at least 1, found 0 for 1");
}
TEST_CASE("translation: tokens of mteval-v13a") {
  using Words = std::vector<std::string>;
  CHECK(tokens_13a("a..b,c 3,4 5-6 -7 8.") ==
        Words{"a", ".", ".", "b", ",", "c", "3,4", "5", "-", "6", "-7", "8", "."});
  CHECK(tokens_13a("It's <skipped> e-mail; {x}~1.") == Words{"It's", "e-mail", ";", "{", "x", "}", "~", "1", "."});
  CHECK(tokens_13a("x,y.z 1.,2 ...") == Words{"x", ",", "y", ".", "z", "1", ".", ",", "2", ".", ".", "."});
  CHECK(tokens_13a("a\u2003b\u00a0c") == Words{"a", "b", "c"});
  CHECK(tokens_13a("").empty());
}

TEST_CASE("translation: subwords give every text back") {
  std::vector<std::string> sentences;
  for (auto const& [from, to] : small_language()) sentences.push_back(from), sentences.push_back(to);
  Subwords const learned = Subwords::learn(sentences, 330);
  CHECK(learned.size() == 330);
  std::vector<std::string> const texts = {
      "Open the red page", "", " ", "  two  spaces ", "öffnen", "日本語\x01\xff\xfe", "a-b_c&d", std::string("\0x", 2)};
  for (std::string const& text : texts) CHECK(learned.decode(learned.encode(text)) == text);
  CHECK(learned.encode("Delete the old file").size() < 15);
  CHECK(learned.encode("xyz").size() == 4);  // the space and three bytes
  // aa occurs four times, then " aa", ab and "aa a" twice each, of which the first has the smallest ids.
  Subwords const small = Subwords::learn({"aaab aaab"}, 259);
  CHECK(small.encode("aaab") == Ids{258, 1 + 'a', 1 + 'b'});
  CHECK(Subwords::learn({"ab"}, 300).size() == 257);  // no pair occurs twice
}
TEST_CASE("translation: a file of subwords, and what is refused") {
  std::string const path = HEADMIX_TRANSLATION_FOLDER "/subwords.txt";
  Subwords const learned = Subwords::learn({"open the file", "open the page", "close the page"}, 270);
  learned.write(path);
  Subwords const read = Subwords::read(path);
  CHECK(read.size() == learned.size());
  CHECK(read.encode("open the page") == learned.encode("open the page"));
  auto const refused_file = [&](std::string const& text) {
    write_file(path, text);
    return error_of([&] { static_cast<void>(Subwords::read(path)); });
  };
  CHECK(refused_file("") == path + ": expected 'headmix subwords 1', found an empty file");
  CHECK(refused_file("other\n") == path + ": line 1: expected 'headmix subwords 1', found 'other'");
  std::string const range = ": expected a whole number from 1 to 256, found ";
  CHECK(refused_file("headmix subwords 1\n1 257\n") == path + ": line 2" + range + "'257'");
  CHECK(refused_file("headmix subwords 1\n0 1\n") == path + ": line 2" + range + "'0'");
  CHECK(refused_file("headmix subwords 1\n7\n") == path + ": line 2" + range + "''");
  CHECK(refused_file("headmix subwords 1\n\n") == path + ": line 2" + range + "''");
}

TEST_CASE("translation: catalogues of both orders of bytes") {
  std::vector<Pair> const pairs = {
      {"", "charset=utf-8"}, {"ctx\4_Open", "Ö_ffnen"}, {std::string("one\0many", 8), "eins"}};
  for (bool const big : {false, true}) {
    auto const found = read_catalogue(catalogue(pairs, big), "a.mo");
    REQUIRE(found.size() == 2);
    CHECK(found[0] == Pair{"_Open", "Ö_ffnen"});
    CHECK(found[1] == Pair{"one", "eins"});
  }
  CHECK(read_catalogue(catalogue({}), "a.mo").empty());
  CHECK(without_accelerator("Ö_ffnen & ~x") == "Öffnen & ~x");
  CHECK(without_accelerator("a & b_") == "a & b_");
}
TEST_CASE("translation: catalogues that are refused, whatever their bytes") {
  Bytes const good = catalogue({{"", "charset=utf-8"}, {"Open", "Öffnen"}});
  CHECK(refused({}) == "a.mo: expected a gettext catalogue of at least 28 bytes, found 0 bytes");
  Bytes bytes = good;
  bytes[0] = 0;
  CHECK(refused(bytes) ==
        "a.mo: expected the number 950412de of a gettext catalogue, found other bytes at its beginning");
  bytes = good;
  put(bytes, 4, 2U << 16, false);
  CHECK(refused(bytes) == "a.mo: expected revision 0 or 1 of the format, found 2");
  auto const size = std::to_string(good.size());
  bytes = good;
  put(bytes, 8, 0xffffffff, false);
  CHECK(refused(bytes) ==
        "a.mo: expected a table of 4294967295 texts within " + size + " bytes, found its beginning at byte 28");
  bytes = good;
  put(bytes, 12, 0xfffffff8, false);
  CHECK(refused(bytes) ==
        "a.mo: expected a table of 2 texts within " + size + " bytes, found its beginning at byte 4294967288");
  bytes = good;
  put(bytes, 36, 0xffffffff, false);
  CHECK(refused(bytes).starts_with("a.mo: expected text 1 and a zero byte within " + size +
                                   " bytes, found 4294967295 bytes"));
  bytes = good;
  put(bytes, 40, 0xffffffff, false);
  CHECK(refused(bytes).ends_with("found 4 bytes at byte 4294967295"));
  bytes = good;
  bytes.back() = 'x';  // the last text does not end
  CHECK(refused(bytes).starts_with("a.mo: expected text 1"));
  CHECK(refused(catalogue({{"", "Content-Type: text/plain; charset=ISO-8859-1\n"}})) ==
        "a.mo: expected the character set UTF-8, found 'ISO-8859-1'");
  // Every truncation, and every byte replaced: an error or pairs, never a read outside (sanitizers).
  for (std::size_t n = 0; n < good.size(); ++n)
    CHECK_FALSE(refused({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)}).empty());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int const value : {0x00, 0x7f, 0x80, 0xff}) {
      bytes = good;
      bytes[i] = static_cast<unsigned char>(value);
      static_cast<void>(refused(bytes));
    }
  }
}

TEST_CASE("translation: a corpus in three parts without common sentences") {
  std::string const folder = HEADMIX_TRANSLATION_FOLDER "/corpus";
  fs::remove_all(folder);
  fs::create_directories(folder + "/de");
  auto const language = small_language();
  write_file(folder + "/de/small.mo", text_of(catalogue(language)));
  write_file(folder + "/de/again.mo", text_of(catalogue({language[5], language[6]})));  // earlier in the order
  write_file(folder + "/notes.txt", "no catalogue");
  Corpus const corpus = read_corpus(folder);
  CHECK(corpus.files == 2);
  CHECK(corpus.train.size() + corpus.valid.size() + corpus.test.size() == 480);
  CHECK(std::min(corpus.valid.size(), corpus.test.size()) >= 10);
  std::set<std::string> all;
  for (auto const* part : {&corpus.train, &corpus.valid, &corpus.test}) {
    for (auto const& [from, to] : *part) {
      CHECK(all.insert(from).second);
      CHECK(to.starts_with("Die "));
    }
  }
  CHECK(error_of([&] { static_cast<void>(read_corpus(folder + "/none")); }) ==
        folder + "/none: expected a gettext catalogue, found a file that cannot be read: No such file or directory");
  fs::create_directories(folder + "/empty");
  CHECK(error_of([&] { static_cast<void>(read_corpus(folder + "/empty")); }) ==
        folder +
            "/empty: expected a gettext catalogue, or a folder with files *.mo, found a folder without such files");
  write_file(folder + "/one.mo.old", text_of(catalogue({{"a b", "c d"}})));
  CHECK(headmix::test::says(error_of([&] { static_cast<void>(read_corpus(folder + "/one.mo.old")); }),
                            "expected pairs of sentences to train, validate and test, found "));
}
TEST_CASE("translation: batches have every pair once, and at most so many subwords") {
  std::vector<SubwordPair> pairs;
  for (Int i = 1; i <= 100; ++i) pairs.push_back({{i}, Ids(static_cast<std::size_t>(1 + i * i % 17), i)});
  auto const batches = batches_of(pairs, 40, /*seed*/ 1, /*epoch*/ 0);
  std::set<Int> seen;
  for (Batch const& b : batches) {
    CHECK(b.read.rows() <= 40);
    CHECK(b.predicted.size() == b.read.ids.size());
    for (Index i = 0; i < b.source.sentences(); ++i) {
      auto const begin = static_cast<std::size_t>(b.source.offsets[static_cast<std::size_t>(i)]);
      CHECK(seen.insert(b.source.ids[begin]).second);
      CHECK(b.source.ids[begin + 1] == end_id);
      auto const read = static_cast<std::size_t>(b.read.offsets[static_cast<std::size_t>(i)]);
      CHECK(b.read.ids[read] == end_id);
      CHECK(b.predicted[read] == b.source.ids[begin]);
    }
  }
  CHECK(seen.size() == 100);
  CHECK(batches_of(pairs, 40, 1, 0).front().predicted == batches.front().predicted);
  CHECK(batches_of(pairs, 40, 1, 1).front().predicted != batches.front().predicted);
  CHECK(batches_of(pairs, 1, 1, 0).size() == 100);
}
