#include "unit/unit.h"

#include "core/text.h"

#include <string.h>

/* Whatever is put into a text, the other side will take it. */
static void a_cleaned_text_is_valid(void **state)
{
    static const char *const texts[] = {"",
                                        "plain",
                                        "cut \xe2\x82",
                                        "cut \xf0\x9f\x98",
                                        "a\nb\tc\x7f",
                                        "\xff\xfe",
                                        "fine €",
                                        "\x80",
                                        "bad \xc3( in the middle of it",
                                        "€\xe2"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char text[64];

        strcpy(text, texts[i]);
        text_clean(text);
        assert_true(text_valid((const uint8_t *)text, strlen(text)));
        if (text_valid((const uint8_t *)texts[i], strlen(texts[i]))) {
            assert_string_equal(text, texts[i]);
        }
    }
}

/* Wherever the end of the buffer or of the precision is. */
static void a_text_is_never_cut_inside_a_character(void **state)
{
    static const char key[] = "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80z";

    (void)state;
    for (size_t cap = 1; cap <= sizeof(key) + 2; cap++) {
        char text[32];

        text_say(text, cap, "'%s'", key);
        assert_true(strlen(text) < cap && text_valid((uint8_t *)text, strlen(text)));
        text_say(text, sizeof(text), "%.*s", (int)cap, key);
        assert_true(text_valid((uint8_t *)text, strlen(text)));
        assert_memory_equal(text, key, strlen(text));
    }
}

static void sizes_have_the_unit_that_reads_best(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {(1 << 20) - 1, "1.0 MiB"}, /* and not 1024.0 KiB */
        {4 << 20, "4.0 MiB"},
        {1288490189, "1.2 GiB"},
        {(uint64_t)1 << 40, "1.0 TiB"},
        {UINT64_MAX, "16.0 EiB"},
    };
    char text[TEXT_BYTES_MAX];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_string_equal(text_bytes(cases[i].bytes, text), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cleaned_text_is_valid),
        cmocka_unit_test(a_text_is_never_cut_inside_a_character),
        cmocka_unit_test(sizes_have_the_unit_that_reads_best),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
