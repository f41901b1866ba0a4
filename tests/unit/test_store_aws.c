#include "store/aws.h"

#include <sys/stat.h>
#include <unistd.h>

#include "unit_place.h"

static char credentials[64];
static char config[64];

static const char *const variables[] = {
    "AWS_ACCESS_KEY_ID",           "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",   "AWS_PROFILE",     "AWS_REGION",
    "AWS_DEFAULT_REGION",          "AWS_ENDPOINT_URL",      "AWS_ENDPOINT_URL_S3", "S3_ENDPOINT_URL", "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
};

static void clean(void)
{
    for (size_t i = 0; i < COUNT(variables); i++)
        unsetenv(variables[i]);
    setenv("HOME", unit_place, 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    unlink(credentials);
    unlink(config);
}

static struct leat_aws load(const struct leat_store_opts *opts)
{
    struct leat_error err;
    struct leat_aws aws;
    const struct leat_store_opts none = {0};
    assert_ok(leat_aws_load(opts ? opts : &none, &aws, &err), err);
    return aws;
}

static void expect_error(const struct leat_store_opts *opts, const char *part)
{
    struct leat_error err;
    struct leat_aws aws;
    const struct leat_store_opts none = {0};
    assert_fails(leat_aws_load(opts ? opts : &none, &aws, &err), err, LEAT_INVALID, part);
    assert_null(strstr(err.text, "sesame")); /* no secret in a message */
}

TEST_WITH(clean, NULL, nothing_at_all_is_anonymous)
{
    struct leat_aws aws = load(NULL);
    assert_null(aws.access_key);
    assert_null(aws.region);
    assert_null(aws.endpoint_url);
    assert_string_equal(aws.keys_from, "");
    leat_aws_free(&aws);
    leat_aws_free(&aws);
    leat_aws_free(NULL);
    unsetenv("HOME");
    aws = load(NULL);
    assert_null(aws.access_key);
    leat_aws_free(&aws);
}

TEST_WITH(clean, NULL, the_environment_wins_over_the_files)
{
    write_text(credentials, "[default]\naws_access_key_id = file\naws_secret_access_key = sesame\nregion = file-1\n");
    setenv("AWS_ACCESS_KEY_ID", "env", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "open sesame", 1);
    setenv("AWS_SESSION_TOKEN", "token", 1);
    setenv("AWS_DEFAULT_REGION", "default-1", 1);
    struct leat_aws aws = load(NULL);
    assert_string_equal(aws.access_key, "env");
    assert_string_equal(aws.secret_key, "open sesame");
    assert_string_equal(aws.session_token, "token");
    assert_string_equal(aws.region, "default-1");
    assert_string_equal(aws.keys_from, "AWS_ACCESS_KEY_ID");
    leat_aws_free(&aws);
    setenv("AWS_REGION", "region-1", 1);
    aws = load(&(struct leat_store_opts){.region = "option-1"});
    assert_string_equal(aws.region, "option-1");
    leat_aws_free(&aws);
    aws = load(NULL);
    assert_string_equal(aws.region, "region-1");
    leat_aws_free(&aws);
    /* A variable that is set to nothing is not set. */
    setenv("AWS_ACCESS_KEY_ID", "", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "", 1);
    aws = load(NULL);
    assert_string_equal(aws.access_key, "file");
    assert_null(aws.session_token);
    leat_aws_free(&aws);
}

TEST_WITH(clean, NULL, endpoints_have_their_order)
{
    write_text(config, "[default]\nendpoint_url = http://file\n");
    struct leat_aws aws = load(NULL);
    assert_string_equal(aws.endpoint_url, "http://file");
    assert_string_equal(aws.endpoint_from, "profile 'default'");
    leat_aws_free(&aws);
    static const char *const names[] = {"S3_ENDPOINT_URL", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"};
    for (size_t i = 0; i < COUNT(names); i++) {
        setenv(names[i], names[i], 1);
        aws = load(NULL);
        assert_string_equal(aws.endpoint_url, names[i]);
        assert_string_equal(aws.endpoint_from, names[i]);
        leat_aws_free(&aws);
    }
    aws = load(&(struct leat_store_opts){.endpoint_url = "http://option"});
    assert_string_equal(aws.endpoint_url, "http://option");
    assert_string_equal(aws.endpoint_from, "--endpoint-url");
    leat_aws_free(&aws);
}

TEST_WITH(clean, NULL, profiles_are_found_in_both_files)
{
    write_text(credentials, "# mine\n[default]\naws_access_key_id=D\naws_secret_access_key=sesame\n\n"
                            "[other]\naws_access_key_id = O\naws_secret_access_key = sesame=+/;x\n"
                            "aws_session_token = T\n");
    write_text(config, "[default]\nregion = d-1\n[profile other]\nregion = o-1\ns3 =\n    addressing_style = path\n"
                       "    endpoint_url = http://o\noutput = json\n[profile  spaced ]\nregion = s-1\n"
                       "[other]\nregion = not-a-profile\n[sso-session x]\nsso_region = y\n");
    struct leat_aws aws = load(NULL);
    assert_string_equal(aws.access_key, "D");
    assert_string_equal(aws.region, "d-1");
    assert_string_equal(aws.keys_from, "profile 'default'");
    leat_aws_free(&aws);
    aws = load(&(struct leat_store_opts){.profile = "other"});
    assert_string_equal(aws.access_key, "O");
    assert_string_equal(aws.secret_key, "sesame=+/;x");
    assert_string_equal(aws.session_token, "T");
    assert_string_equal(aws.region, "o-1");
    assert_string_equal(aws.endpoint_url, "http://o");
    assert_int_equal(aws.addressing, LEAT_ADDRESSING_PATH);
    assert_string_equal(aws.keys_from, "profile 'other'");
    leat_aws_free(&aws);
    setenv("AWS_PROFILE", "spaced", 1);
    aws = load(NULL);
    assert_string_equal(aws.region, "s-1");
    assert_null(aws.access_key);
    leat_aws_free(&aws);
}

TEST_WITH(clean, NULL, a_profile_that_was_named_beats_keys_in_the_environment)
{
    write_text(credentials, "[p]\naws_access_key_id = P\naws_secret_access_key = sesame\n");
    setenv("AWS_ACCESS_KEY_ID", "env", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "sesame", 1);
    struct leat_aws aws = load(&(struct leat_store_opts){.profile = "p"});
    assert_string_equal(aws.access_key, "P");
    leat_aws_free(&aws);
    setenv("AWS_PROFILE", "p", 1); /* as other clients do: keys in the environment go before a profile there */
    aws = load(NULL);
    assert_string_equal(aws.access_key, "env");
    leat_aws_free(&aws);
}

TEST_WITH(clean, NULL, half_a_key_pair_and_a_missing_profile_are_errors)
{
    setenv("AWS_ACCESS_KEY_ID", "env", 1);
    expect_error(NULL, "AWS_SECRET_ACCESS_KEY");
    unsetenv("AWS_ACCESS_KEY_ID");
    setenv("AWS_SECRET_ACCESS_KEY", "sesame", 1);
    expect_error(NULL, "AWS_ACCESS_KEY_ID");
    struct leat_aws aws = load(&(struct leat_store_opts){.anonymous = true});
    assert_null(aws.access_key);
    assert_null(aws.secret_key);
    leat_aws_free(&aws);
    unsetenv("AWS_SECRET_ACCESS_KEY");
    write_text(credentials, "[default]\naws_secret_access_key = sesame\n");
    expect_error(NULL, "only one of");
    expect_error(&(struct leat_store_opts){.profile = "none"}, "'none'");
    setenv("AWS_PROFILE", "gone", 1);
    expect_error(NULL, "'gone'");
}

TEST_WITH(clean, NULL, keys_with_control_characters_are_refused_before_they_reach_a_header)
{
    setenv("AWS_ACCESS_KEY_ID", "id", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "sesame", 1);
    setenv("AWS_SESSION_TOKEN", "token\r\nX-Evil: 1", 1);
    expect_error(NULL, "control character");
    setenv("AWS_SESSION_TOKEN", "token\n", 1);
    expect_error(NULL, "control character");
    unsetenv("AWS_SESSION_TOKEN");
    setenv("AWS_ACCESS_KEY_ID", "id\n", 1);
    expect_error(NULL, "control character");
}

TEST_WITH(clean, NULL, files_with_odd_syntax_are_said_with_their_line)
{
    static const char *const wrong[] = {
        "[default\nregion = x\n",
        "[default]\njust words\n",
        "[default]\n= value\n",
        "[default] trailing\n",
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        write_text(credentials, wrong[i]);
        expect_error(NULL, "line");
    }
    write_text(credentials, "\n\n ; comment\n[default]\r\nregion = crlf-1\r\n\tindented = x\n");
    struct leat_aws aws = load(NULL);
    assert_string_equal(aws.region, "crlf-1");
    leat_aws_free(&aws);
    write_text(credentials, "");
    aws = load(NULL);
    leat_aws_free(&aws);
}

TEST_WITH(clean, NULL, the_files_can_be_elsewhere)
{
    char other[64];
    snprintf(other, sizeof other, "%s/elsewhere", unit_place);
    write_text(other, "[default]\nregion = e-1\n");
    setenv("AWS_CONFIG_FILE", other, 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/file", 1);
    struct leat_aws aws = load(NULL);
    assert_string_equal(aws.region, "e-1");
    leat_aws_free(&aws);
    unlink(other);
}

static void begin(void)
{
    place_open();
    assert_int_equal(mkdir(place_path(".aws"), 0700), 0);
    snprintf(credentials, sizeof credentials, "%s", place_path(".aws/credentials"));
    snprintf(config, sizeof config, "%s", place_path(".aws/config"));
}

TEST_GROUP(begin, place_close);
